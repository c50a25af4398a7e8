"""Plugins that a test writes as functions, served over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any]
Plugin = Callable[[dict[str, Any]], Any]


@dataclass
class Call:
    """One request that came in."""

    path: str
    headers: dict[str, str]
    body: Any
    raw: bytes = b""
    at: float = field(default_factory=time.monotonic)


@dataclass
class PluginServer:
    """Functions by path: each gets the request's JSON body, and returns JSON, a text, or `(status, either)`."""

    url: str
    plugins: dict[str, Plugin] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    def plugin(self, path: str, function: Plugin) -> str:
        """Serve the function; the address to register."""
        self.plugins[path] = function
        return f"{self.url}{path}"

    def calls_of(self, path: str, job_id: str = "") -> list[Call]:
        """What came in for a path, in order; with `job_id`, only the events of that job."""
        return [call for call in self.calls if call.path == path and job_id in ("", call.body.get("id"))]


@contextmanager
def serving() -> Iterator[PluginServer]:
    """A plugin server on a free loopback port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(raw)
            served.calls.append(Call(self.path, dict(self.headers), body, raw))
            plugin = served.plugins.get(self.path.partition("?")[0])
            result = plugin(body) if plugin else (404, "no such plugin")
            status, content = result if isinstance(result, tuple) else (200, result)
            payload = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Say nothing: tests look at `calls`."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    server = Server(("127.0.0.1", 0), Handler)
    served = PluginServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
