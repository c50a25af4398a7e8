"""One HTTP request, bounded in time and size, over keep-alive connections.

This uses urllib3 and not `requests`, so there are no proxies from the environment, no redirects, no cookies and no
`.netrc`. A read time-out alone bounds only the pause between two bytes; here every send and receive has the remaining time
until the deadline as its time-out, so a server that sends byte by byte is cut off too.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import DecodeError, HTTPError, LocationValueError, ProtocolError, ReadTimeoutError, SSLError

from pipeline_core.plugins.errors import AnswerTooLarge, BadAnswer, CallFailed, PluginUnavailable
from pipeline_core.plugins.network import Deadline, connect
from pipeline_core.settings import Network

MAX_ANSWER = 8 * 1024 * 1024
"""Bytes that an answer may have after decoding its Content-Encoding."""
_MAX_ERROR = 4096
_BLOCK = 16 * 1024


@dataclass(frozen=True, slots=True)
class Response:
    """`body` is complete when `status` is 200; otherwise only its beginning is read, for a message."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Sends POST requests. Thread-safe and fork-safe."""

    def __init__(self, networks: Sequence[Network] = ()) -> None:
        self._networks = networks
        self._own: tuple[int, urllib3.PoolManager] | None = None

    def post(self, url: str, body: bytes, headers: Mapping[str, str], deadline: Deadline) -> Response:
        """Raises PluginUnavailable (no connection, not in time, cut off) and BadAnswer (refused, too large, not HTTP)."""
        reset = _BOUNDS.set((self._networks, deadline))
        try:
            answer = self._pools().urlopen(
                "POST",
                url,
                body=body,
                headers=headers,
                redirect=False,
                retries=False,
                preload_content=False,
                timeout=urllib3.Timeout(deadline.remaining()),
            )
            try:
                return Response(answer.status, answer.headers, _read(answer))
            finally:
                answer.close()
        except (HTTPError, OSError) as error:
            raise _failure(error, deadline) from error
        finally:
            _BOUNDS.reset(reset)

    def close(self) -> None:
        """Close the connections that are kept open. Calls may still be made."""
        if self._own and self._own[0] == os.getpid():
            self._own[1].clear()

    def _pools(self) -> urllib3.PoolManager:
        """A connection must not be shared with a parent process, so each process has its own."""
        if self._own and self._own[0] == os.getpid():
            return self._own[1]
        manager = urllib3.PoolManager(num_pools=256, maxsize=64)
        manager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
        self._own = os.getpid(), manager
        return manager


def _read(answer: urllib3.BaseHTTPResponse) -> bytes:
    if answer.status != 200:
        try:
            return answer.read(_MAX_ERROR)
        except HTTPError:
            return b""
    body = answer.read(MAX_ANSWER + 1)
    if len(body) > MAX_ANSWER:
        raise AnswerTooLarge(f"its answer is larger than {MAX_ANSWER >> 20} MiB")
    return body


def _failure(error: HTTPError | OSError, deadline: Deadline) -> CallFailed:
    inner = next((arg for arg in error.args if isinstance(arg, Exception)), error)
    match error:
        case ReadTimeoutError():
            return PluginUnavailable(f"no answer within {deadline}")
        case SSLError():
            return PluginUnavailable(f"TLS failed: {tls_reason(inner)}")
        case DecodeError():
            return BadAnswer("its answer is not what its Content-Encoding says")
        case LocationValueError():
            return BadAnswer("its address cannot be called")
        case ProtocolError() | OSError():
            if isinstance(inner, TimeoutError):
                return PluginUnavailable(f"no answer within {deadline}")
            closed = http.client.RemoteDisconnected | http.client.IncompleteRead
            if isinstance(inner, http.client.HTTPException) and not isinstance(inner, closed):
                return BadAnswer("its answer is not HTTP")
            return PluginUnavailable("the connection was closed before the answer was complete")
        case _:
            return BadAnswer("its answer is not HTTP")


def tls_reason(error: Exception) -> str:
    """Why TLS failed, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (getattr(error, "reason", None) or type(error).__name__).replace("_", " ").lower()


_BOUNDS: ContextVar[tuple[Sequence[Network], Deadline]] = ContextVar("bounds")
"""The allowed networks and the deadline of this thread's call: urllib3 offers no parameter to pass them to connections."""


class TimedReader(io.RawIOBase):
    """Reads from a socket; each read has the remaining time until the deadline as its time-out."""

    def __init__(self, connection: socket.socket, source: io.RawIOBase, deadline: Deadline) -> None:
        self._connection, self._source, self._deadline = connection, source, deadline
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connection.settimeout(self._deadline.remaining())
        count = self._source.readinto(buffer)
        self.ended = count == 0
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        _, deadline = _BOUNDS.get()
        self._source = TimedReader(sock, self.fp.detach(), deadline)
        self.fp = io.BufferedReader(self._source, _BLOCK)

    def begin(self) -> None:
        """Skip interim answers (1xx): `http.client` skips only 100. 101 is final, and was not requested.

        Raises IncompleteRead when the headers are cut off: `http.client` would take them as complete.
        """
        super().begin()
        while 100 <= self.status < 200 and self.status != http.HTTPStatus.SWITCHING_PROTOCOLS:
            self.headers = self.msg = None  # type: ignore[assignment]
            super().begin()
        if self._source.ended:
            raise http.client.IncompleteRead(b"")


class _BoundedHTTP(HTTPConnection):
    response_class = _TimedResponse

    def _new_conn(self) -> socket.socket:
        return connect(self._dns_host, self.port, *_BOUNDS.get())

    def send(self, data: Any) -> None:
        """Send in blocks, because with TLS the time-out restarts with every record."""
        if self.sock is None:
            self.connect()
        assert self.sock is not None
        _, deadline = _BOUNDS.get()
        view = memoryview(data)
        for start in range(0, len(view), _BLOCK):
            self.sock.settimeout(deadline.remaining())
            self.sock.sendall(view[start : start + _BLOCK])


class _BoundedHTTPS(_BoundedHTTP, HTTPSConnection):
    pass


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _BoundedHTTP


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    """Trusts the system's CA certificates (or `SSL_CERT_FILE`), read once per host: it takes milliseconds."""

    ConnectionCls = _BoundedHTTPS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, ssl_context=ssl.create_default_context(), **options)
