"""Plain text responses that are streamed line by line."""

from __future__ import annotations

import itertools
import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flask import Response, request

from pipeline_core.errors import Unavailable
from pipeline_core.runtime import part
from pipeline_core.settings import settings

BUSY_SECONDS = 30
"""`Retry-After` of the answer that there are too many followers."""

CONNECTION_KEYS = ("gunicorn.socket", "werkzeug.socket")
"""Keys under which WSGI servers put the connection's socket into the environ; WSGI itself defines none."""

IDLE_SECONDS, PROBE_SECONDS, PROBES = 10, 5, 3


def answer(lines: Callable[[], Iterator[str]], *, follow: bool) -> Response:
    """A response that streams the lines; an empty line is a keep-alive and is not sent. A follower occupies one of this
    process's slots until the response has ended.

    Raises Unavailable when no slot is free, and whatever `lines` raises before its first line, so that such errors are
    answered in the envelope.
    """
    release = _take_follower_slot() if follow else _no_slot
    try:
        rest = lines()
        first = next(rest, None)
    except BaseException:
        release()
        raise
    response = Response(_text(first, rest, ClientConnection(request.environ)), mimetype="text/plain")
    response.call_on_close(release)
    return response


def _text(first: str | None, rest: Iterator[str], connection: ClientConnection) -> Iterator[bytes]:
    """The body. A keep-alive adds no text: it makes the server send the headers, and is when the connection is checked."""
    if first is not None:
        for line in itertools.chain((first,), rest):
            if not line and connection.closed:
                return
            yield line.encode("utf-8", "replace")


def _take_follower_slot() -> Callable[[], None]:
    """Occupy a follower slot, and return what releases it. Raises Unavailable."""
    places = _follower_slots()
    if not places.acquire(blocking=False):
        raise Unavailable(
            f"This process serves {settings().log_followers} log followers already; try again later.",
            retry_after=BUSY_SECONDS,
        )
    return places.release


def _no_slot() -> None:
    pass


@part
def _follower_slots() -> threading.Semaphore:
    return threading.Semaphore(settings().log_followers)


class ClientConnection:
    """The connection that a request came by. `closed` is always false where the WSGI server does not expose it.

    A client whose machine vanished without closing the connection is noticed by TCP keep-alive, after 25 s.
    """

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._poll = select.poll()
        connection = next((environ[name] for name in CONNECTION_KEYS if name in environ), None)
        if connection is not None:
            self._poll.register(connection, select.POLLRDHUP)
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)

    @property
    def closed(self) -> bool:
        """Whether the client has closed the connection."""
        return bool(self._poll.poll(0))
