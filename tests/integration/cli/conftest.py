from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner, Result

from pipeline_cli import main


@dataclass
class Reply:
    status: int
    body: bytes
    headers: dict[str, str]


@dataclass
class Asked:
    """A request that the stub was sent."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Stub:
    """A service with prepared answers, in the envelope of the API; it records the requests."""

    url: str = ""
    replies: dict[tuple[str, str], list[Reply]] = field(default_factory=lambda: defaultdict(list))
    asked: list[Asked] = field(default_factory=list)

    def answer(
        self,
        method: str,
        path: str,
        payload: Any = None,
        *,
        status: int = 200,
        code: str = "OPERATION_SUCCEEDED",
        msg: str = "",
        errors: dict[str, list[str]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """One more answer to this request; the last one is given again and again."""
        envelope = {"code": code, "msg": msg}
        envelope |= {} if payload is None else {"payload": payload}
        envelope |= {} if errors is None else {"errors": errors}
        self.raw(
            method, path, json.dumps(envelope).encode(), status, {"Content-Type": "application/json"} | (headers or {})
        )

    def raw(self, method: str, path: str, body: bytes, status: int, headers: dict[str, str]) -> None:
        self.replies[method, path].append(Reply(status, body, headers))

    def break_off(self, method: str, path: str, body: bytes) -> None:
        """Closes the connection after `body`, with more to come; without one, before any answer."""
        chunk = b"%x\r\n%b\r\n" % (len(body), body)
        headers = {"Content-Type": "text/plain", "Transfer-Encoding": "chunked"}
        self.raw(method, path, chunk, 200 if body else 0, headers)

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        replies = self.replies[asked.method, asked.path]
        if not replies:
            body = {"code": "OPERATION_TARGET_NOT_FOUND", "msg": f"there is no {asked.path}"}
            return Reply(404, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return replies.pop(0) if len(replies) > 1 else replies[0]


def handler_for(stub: Stub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            parts = urlsplit(self.path)
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            body = json.loads(text) if text else None
            reply = stub.reply(Asked(self.command, parts.path, query, dict(self.headers), body))
            self.close_connection = "Transfer-Encoding" in reply.headers
            if not reply.status:
                return
            self.send_response(reply.status)
            length = {} if self.close_connection else {"Content-Length": str(len(reply.body))}
            for name, value in (length | reply.headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@pytest.fixture
def stub() -> Iterator[Stub]:
    stub = Stub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(stub))
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield stub
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pipeline(stub: Stub) -> Callable[..., Result]:
    """Runs the command line against the stub."""

    def run(*words: str, **environment: str) -> Result:
        variables = {"PIPELINE_URL": stub.url, "PIPELINE_TOKEN": "secret", **environment}
        result = CliRunner().invoke(main, list(words), env=variables, catch_exceptions=False)
        return result

    return run
