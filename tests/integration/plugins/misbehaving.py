"""A plugin that misbehaves in a different way at each path."""

from __future__ import annotations

import gzip
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.waiting import HANG_SECONDS

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class ReceivedRequest:
    path: str
    headers: dict[str, str]
    body: bytes


class Plugin(socketserver.ThreadingTCPServer):
    """Listens on a free loopback port. `requests` and `connections` are those received so far."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tls = tls
        self.requests: list[ReceivedRequest] = []
        self.connections = 0
        self.released = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/{path}"

    @contextmanager
    def running(self) -> Iterator[Plugin]:
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self.shutdown()
            self.server_close()
            thread.join(HANG_SECONDS)


class _Handler(socketserver.BaseRequestHandler):
    server: Plugin

    def handle(self) -> None:
        self.server.connections += 1
        self.connection = self.request
        with suppress(OSError):
            self.connection = self._secured(self.request)
            self.reader = self.connection.makefile("rb")
            while self._answer_one():
                pass

    def finish(self) -> None:
        with suppress(OSError):
            self.connection.close()

    def _secured(self, connection: socket.socket) -> socket.socket:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.server.tls.wrap_socket(connection, server_side=True) if self.server.tls else connection

    def _answer_one(self) -> bool:
        line = self.reader.readline()
        if not line:
            return False
        headers = {}
        while (header := self.reader.readline().strip()) != b"":
            name, _, value = header.decode().partition(": ")
            headers[name.lower()] = value
        path = line.split()[1].decode().lstrip("/")
        self.server.requests.append(ReceivedRequest(path, headers, self.reader.read(int(headers["content-length"]))))
        return BEHAVIOURS[path](self) is not False

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def reply(self, body: bytes, status: str = "200 OK", *headers: str) -> None:
        head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers])
        self.send(head.encode() + b"\r\n\r\n" + body)

    def drip(self, data: bytes, at_once: bytes = b"") -> bool:
        self.send(at_once)
        for byte in data:
            self.send(bytes([byte]))
            if self.server.released.wait(0.05):
                break
        return False


def _hang(handler: _Handler) -> bool:
    handler.server.released.wait(HANG_SECONDS)
    return False


def _large(handler: _Handler) -> bool:
    handler.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (100 * MEBIBYTE))
    for _ in range(100):
        handler.send(b" " * MEBIBYTE)
    return False


def _bomb(encoding: str, body: bytes) -> Callable[[_Handler], None]:
    return lambda handler: handler.reply(body, "200 OK", f"Content-Encoding: {encoding}")


def _closed(data: bytes) -> Callable[[_Handler], bool]:
    def behave(handler: _Handler) -> bool:
        handler.send(data)
        return False

    return behave


def _flaky(handler: _Handler) -> None:
    if len(handler.server.requests) < 3:
        handler.reply(b"busy", "503 Service Unavailable")
    else:
        handler.reply(b'{"decision": "pass"}')


def _interim(*statuses: int) -> Callable[[_Handler], None]:
    def behave(handler: _Handler) -> None:
        for status in statuses:
            handler.send(f"HTTP/1.1 {status} Soon\r\nLink: </a>\r\nContent-Length: 3\r\n\r\n".encode())
        handler.reply(b'{"decision": "pass"}')

    return behave


_ZEROS = gzip.compress(b"0" * (64 * MEBIBYTE))

BEHAVIOURS: dict[str, Callable[[_Handler], bool | None]] = {
    "pass": lambda handler: handler.reply(b'{"decision": "pass"}'),
    **{f"interim-{status}": _interim(status) for status in (100, 101, 102, 103, 199)},
    "interim-many": _interim(100, 103, 103, 102, 199),
    "whole": lambda handler: handler.reply(b" " * (8 * MEBIBYTE)),
    "chunked": lambda handler: handler.send(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    ),
    "compressed": _bomb("gzip", gzip.compress(b"hello world")),
    "flaky": _flaky,
    "hang": _hang,
    "drip-headers": lambda handler: handler.drip(b"HTTP/1.1 200 OK\r\n" + b"X-More: x\r\n" * 1000),
    "drip-body": lambda handler: handler.drip(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + b"x" * 9999),
    "drip-chunks": lambda handler: handler.drip(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1000
    ),
    "drip-continue": lambda handler: handler.drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "drip-hints": lambda handler: handler.drip(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 1000),
    "drip-error": lambda handler: handler.drip(b"x" * 9999, b"HTTP/1.1 500 No\r\nContent-Length: 9999\r\n\r\n"),
    "501": lambda handler: handler.reply(b"Traceback\n\x1b[31m" + b"x" * MEBIBYTE, "501 Not Implemented"),
    "204": lambda handler: handler.send(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "429": lambda handler: handler.reply(b"", "429 Too Many Requests", "Retry-After: 3600"),
    "redirect": lambda handler: handler.reply(b"", "302 Found", "Location: http://169.254.169.254/latest/meta-data/"),
    "cookie": lambda handler: handler.reply(b"", "200 OK", "Set-Cookie: session=1"),
    "large": _large,
    "bomb": _bomb("gzip", _ZEROS),
    "bomb-in-bomb": _bomb("gzip, gzip", gzip.compress(_ZEROS)),
    "not-gzip": _bomb("gzip", b"hello world"),
    "closed-at-once": lambda handler: False,
    "closed-in-headers": _closed(b"HTTP/1.1 200 OK\r\nContent-"),
    "closed-between-headers": _closed(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"),
    "until-closed": _closed(b"HTTP/1.1 200 OK\r\n\r\nhello world"),
    "closed-after-hints": _closed(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "closed-in-body": _closed(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
    "closed-in-chunk": _closed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{"),
    "not-http": _closed(b"\x00\x01 what is this\r\n\r\n"),
    "long-line": _closed(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"),
    "many-headers": _closed(b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1000 + b"\r\n"),
    "two-lengths": _closed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    "html": lambda handler: handler.reply(b"<html>"),
    "twice": lambda handler: handler.reply(b'{"decision": "stop", "decision": "pass"}'),
    "deep": lambda handler: handler.reply(b'{"decision": "pass", "x": ' + b"[" * 10**6 + b"]" * 10**6 + b"}"),
}
