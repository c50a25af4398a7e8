"""A threading HTTP server for a plugin, which stops gracefully."""

from __future__ import annotations

import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pipeline_plugin.plugins import App
from pipeline_plugin.web import MAX_BODY, TOO_LARGE, Reply, Request

IDLE_SECONDS = 60
"""How long a connection stays open with nothing coming."""
BODY_SECONDS = 30
"""How long a client may take to send a body."""
GRACE_SECONDS = 25
"""How long calls may still take when the server is to stop; Kubernetes kills after 30."""
_BLOCK = 64 * 1024


class PluginServer(ThreadingHTTPServer):
    """Serves `app`. `stop` takes no more calls, waits for those under way, and closes."""

    daemon_threads = True
    block_on_close = False
    # The service makes up to 128 calls at a time.
    request_queue_size = 256

    def __init__(self, app: App, host: str = "127.0.0.1", port: int = 0) -> None:
        self.app = app
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._active = 0
        self._changed = threading.Condition()
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where it can be called."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def start(self) -> PluginServer:
        """Serve in a thread of its own."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def stop(self, grace: float = GRACE_SECONDS) -> bool:
        """Take no new connections, wait up to `grace` seconds for the calls under way; whether all have ended."""
        self.app.stopping = True
        self.shutdown()
        self.server_close()
        with self._changed:
            return self._changed.wait_for(lambda: self._active == 0, grace)

    def count(self, change: int) -> None:
        """A call begins (1) or ends (-1)."""
        with self._changed:
            self._active += change
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error of the plugin."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # What is no HTTP at all is answered with a status line, too.
    default_request_version = "HTTP/1.0"
    timeout = IDLE_SECONDS
    # Headers and body are written as one, so that no packet waits for the acknowledgement of another.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: PluginServer

    def parse_request(self) -> bool:
        # From the first line on: the call counts as under way, also while its body is being sent.
        self.server.count(1)
        self._counted = True
        return super().parse_request()

    def handle_one_request(self) -> None:
        self._counted = False
        try:
            super().handle_one_request()
        finally:
            if self._counted:
                self.server.count(-1)

    def do_POST(self) -> None:
        body = self._body()
        if isinstance(body, Reply):
            self.close_connection = True
            self._answer(body)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        self._answer(self.server.app.respond(Request(self.command, path, headers, body)))

    do_GET = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_POST

    def _body(self) -> bytes | Reply:
        if self.headers.get("Transfer-Encoding"):
            return Reply.error(411, "send the body with a Content-Length")
        text = self.headers.get("Content-Length", "0").strip()
        if not (text.isascii() and text.isdigit()):
            return Reply.error(400, "Content-Length is not a number")
        if int(text) > MAX_BODY:
            return TOO_LARGE
        body, left, deadline = bytearray(), int(text), time.monotonic() + BODY_SECONDS
        while left:
            self.connection.settimeout(max(0.001, deadline - time.monotonic()))
            block = self.rfile.read1(min(left, _BLOCK))
            if not block:
                return Reply.error(400, "the body ended early")
            body += block
            left -= len(block)
        self.connection.settimeout(IDLE_SECONDS)
        return bytes(body)

    def _answer(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.all_headers().items():
            self.send_header(name, value)
        if self.server.app.stopping:
            self.close_connection = True
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """The plugin logs its calls itself."""


def serve(app: App, host: str, port: int) -> bool:
    """Serve until SIGTERM or SIGINT, then stop; whether all calls under way were answered."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    server = PluginServer(app, host, port).start()
    print(f"listening on {server.url}", flush=True)  # noqa: T201
    ended.wait()
    return server.stop()
