"""Requests to the plugin that is checked: as the service sends them, and by hand on a connection. All end in time."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from urllib.parse import urlsplit

from pipeline_cli.checking.packets import JOB_ID
from pipeline_core.plugins.errors import MASK, BadAnswer, CallFailed, PluginUnavailable
from pipeline_core.plugins.network import Deadline, connect
from pipeline_core.plugins.packet import Endpoint, PluginCall, call_headers, signature_headers
from pipeline_core.plugins.transport import MAX_ANSWER, Response, Transport

_BLOCK = 64 * 1024


class OutOfTime(Exception):
    """The time for the whole check is over."""


@dataclass(frozen=True)
class Exchange:
    """A request and its answer; `error` in place of an answer that did not come."""

    address: str
    headers: Mapping[str, str]
    body: bytes
    response: Response | None = None
    error: CallFailed | None = None
    late: bool = False
    """There was no answer within the time for one call."""


@dataclass
class Caller:
    """Calls one plugin. `seconds` is the time for one call, `until` (by `time.monotonic()`) that for all."""

    endpoint: Endpoint
    seconds: float
    until: float
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def deadline(self) -> Deadline:
        """The time for one call. Raises OutOfTime."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return Deadline.after(min(self.seconds, left))

    def new_key(self) -> str:
        """An `Idempotency-Key` that was not used yet."""
        return PluginCall(JOB_ID, "check", self.endpoint.key, next(self._numbers)).idempotency_key

    def headers(self, body: bytes, key: str = "") -> dict[str, str]:
        """The headers of a call, as the service makes them."""
        return call_headers(
            self.endpoint, body, job_id=JOB_ID, idempotency_key=key or self.new_key(), request_id="check"
        )

    def signed(self, body: bytes, secret: str, moment: datetime) -> dict[str, str]:
        """The headers of a call with a signature of our own."""
        headers = self.headers(body)
        return headers | signature_headers(secret, headers["Idempotency-Key"], body, moment)

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> Exchange:
        """One call on a new connection, as the service makes it. Raises OutOfTime."""
        given = dict(headers or self.headers(body))
        deadline, transport = self.deadline(), Transport()
        sent = Exchange(self.endpoint.address, self.shown(given), body)
        try:
            return replace(sent, response=transport.post(self.endpoint.address, body, given, deadline))
        except CallFailed as error:
            late = isinstance(error, PluginUnavailable) and _over(deadline)
            return replace(sent, error=error, late=late)
        finally:
            transport.close()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection of our own, which is closed by force when the time for one call is over. Raises CallFailed."""
        url = urlsplit(self.endpoint.address)
        host, secure = url.hostname or "", url.scheme == "https"
        deadline = self.deadline()
        sock = connect(host, url.port or (443 if secure else 80), (), deadline)
        sock.settimeout(deadline.remaining())
        try:
            if secure:
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=host)
        except OSError:
            sock.close()
            raise PluginUnavailable("TLS failed") from None
        client = http.client.HTTPConnection(url.netloc.rpartition("@")[2])
        client.sock = sock
        closer = threading.Timer(deadline.remaining(), _cut, [sock])
        closer.daemon = True
        closer.start()
        try:
            yield Connection(self, client, deadline)
        finally:
            closer.cancel()
            client.close()

    def shown(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: MASK if name == "Authorization" else value for name, value in headers.items()}


@dataclass
class Connection:
    """A connection on which requests are sent as it pleases the check. A request is begun, sent in parts, and answered."""

    caller: Caller
    client: http.client.HTTPConnection
    deadline: Deadline
    sent: Exchange = field(default_factory=lambda: Exchange("", {}, b""))
    closes: bool = False
    """The plugin has said that it closes the connection after its answer."""

    def begin(self, body: bytes) -> None:
        """Send the headers of a request with this body."""
        url = urlsplit(self.caller.endpoint.address)
        headers = self.caller.headers(body)
        self.sent = Exchange(self.caller.endpoint.address, self.caller.shown(headers), body)
        with self._failures():
            self.client.putrequest("POST", (url.path or "/") + (f"?{url.query}" if url.query else ""))
            for name, value in headers.items():
                self.client.putheader(name, value)
            self.client.putheader("Content-Length", str(len(body)))
            self.client.endheaders()

    def send(self, part: bytes) -> None:
        """Send a part of the body."""
        with self._failures():
            self.client.send(part)

    def answer(self) -> Exchange:
        """The answer to the request that was sent."""
        with self._failures():
            response = self.client.getresponse()
            self.closes = response.will_close
            body = bytearray()
            while block := response.read1(_BLOCK):
                body += block
                if len(body) > MAX_ANSWER:
                    break
            response.close()
            headers = dict(response.getheaders())
            if len(body) < int(headers.get("Content-Length", 0)):
                raise http.client.IncompleteRead(bytes(body))
            self.sent = replace(self.sent, response=Response(response.status, headers, bytes(body)))
        return self.sent

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Notes what goes wrong in the exchange, and raises ExchangeFailed."""
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            late = _over(self.deadline)
            cut = isinstance(error, OSError | http.client.IncompleteRead | http.client.RemoteDisconnected)
            cause: CallFailed = (
                PluginUnavailable(f"no answer within {self.deadline}")
                if late
                else PluginUnavailable("the connection was closed before the answer was complete")
                if cut
                else BadAnswer("its answer is not HTTP")
            )
            self.sent = replace(self.sent, error=cause, late=late)
            raise ExchangeFailed from error


class ExchangeFailed(Exception):
    """An exchange on a connection failed; the connection's `sent` says how."""


def _over(deadline: Deadline) -> bool:
    return time.monotonic() >= deadline.at - 0.05


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
