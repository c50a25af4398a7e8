"""A proxy in front of an API server, which can be cut off, fall silent, and answer by itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import kubernetes.config
import urllib3

PASSED_ON = ("accept", "content-type", "authorization")


@dataclass
class Proxy:
    """`answers` are what the next requests get (status, headers); `always` what all get as long as it is there.

    While it is `cut`, connections are refused a hearing; while it `hangs`, nobody gets an answer. Watches that are
    `silent` stay open and say nothing more.
    """

    kubeconfig: str
    answers: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    always: tuple[int, Mapping[str, str]] | None = None
    cut: bool = False
    hangs: bool = False
    silent: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def cut_off(self) -> None:
        """Be away: those that are connected hear no more either."""
        self.cut = True
        self.silent.set()

    def come_back(self) -> None:
        """Pass on what new connections ask."""
        self.cut = False
        self.silent = threading.Event()


@contextmanager
def proxied(kubeconfig: str, directory: Path) -> Iterator[Proxy]:
    """A proxy, with a kubeconfig of its own that has the rights of the given one."""
    client = kubernetes.config.new_client_from_config(kubeconfig, persist_config=False)
    configuration = client.configuration
    token = configuration.get_api_key_with_prefix("authorization") or configuration.get_api_key_with_prefix(
        "BearerToken"
    )
    with closing(_Server(configuration.host, client.rest_client.pool_manager)) as server:
        path = directory / "proxy.kubeconfig"
        path.write_text(json.dumps(_kubeconfig(f"http://127.0.0.1:{server.server_address[1]}", token)))
        server.proxy = Proxy(str(path))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.proxy
        server.proxy.cut_off()
        server.shutdown()
    client.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: Proxy

    def __init__(self, behind: str, pool: urllib3.PoolManager) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        self.pool = pool

    def close(self) -> None:
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """Connections that break are what it is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _pass_on(self) -> None:
        proxy, silent = self.server.proxy, self.server.proxy.silent
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy.asked.append(f"{self.command} {self.path}")
        if proxy.cut or proxy.hangs:
            self.close_connection = True
            # Whoever asked has given up when this ends.
            _ = self.rfile.read() if proxy.hangs else b""
            return
        given = proxy.always or (proxy.answers.pop(0) if proxy.answers else None)
        if given:
            self._answer(given[0], given[1], json.dumps({"message": f"the proxy says {given[0]}"}).encode())
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() in PASSED_ON}
        response = self.server.pool.request(
            self.command,
            self.server.behind + self.path,
            body=body or None,
            headers=headers,
            preload_content=False,
            retries=False,
            timeout=urllib3.Timeout(connect=5, read=None if "watch=true" in self.path else 30),
        )
        with closing(response):
            if "watch=true" in self.path:
                self._stream(response, silent)
            else:
                self._answer(response.status, response.headers, response.data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name in ("Content-Type", "Retry-After"):
            if headers.get(name):
                self.send_header(name, headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, response: urllib3.BaseHTTPResponse, silent: threading.Event) -> None:
        self.close_connection = True
        self.send_response(response.status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(urllib3.exceptions.HTTPError, OSError):
            for block in response.stream(amt=None, decode_content=False):
                if silent.is_set():
                    break
                self.wfile.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
            else:
                self.wfile.write(b"0\r\n\r\n")
        if silent.is_set():
            # Until whoever listens gives up.
            self.rfile.read()

    def log_message(self, *_: object) -> None:
        """Nothing is said of single requests."""


def _kubeconfig(server: str, token: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": {"server": server}}],
        "users": [{"name": "admin", "user": {"token": token.removeprefix("Bearer ")}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "admin"}}],
    }
