"""Plain text responses that are streamed line by line."""

from __future__ import annotations

import itertools
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flask import Response, request

from api.server.client_socket import ClientSocket
from pipeline_core.auth.actor import Actor
from pipeline_core.errors import Unavailable
from pipeline_core.runtime import part
from pipeline_core.settings import settings

BUSY_SECONDS = 30
"""`Retry-After` of the answer that there are too many streams."""

CONNECTION_KEYS = ("gunicorn.socket", "werkzeug.socket")
"""Keys under which WSGI servers put the connection's socket into the environ; WSGI itself defines none."""

IDLE_SECONDS, PROBE_SECONDS, PROBES = 10, 5, 3


class StreamSlots:
    """How many streams, or other answers that take long, a process has at a time, of one kind. One user has at most half of them.

    Each holds a thread until it has ended.
    """

    def __init__(self, kind: str, slots: int) -> None:
        self._kind = kind
        self._slots = slots
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, user: str) -> Callable[[], None]:
        """Occupy a slot, and return what releases it. Raises Unavailable when this user, or all, have no slot left."""
        share = max(1, self._slots // 2)
        with self._lock:
            if self._taken.total() >= self._slots:
                raise Unavailable(
                    f"This process serves {self._slots} {self._kind} already; try again later.",
                    retry_after=BUSY_SECONDS,
                )
            if self._taken[user] >= share:
                raise Unavailable(
                    f'This process serves {share} {self._kind} of "{user}" already, which is half of all; try again later.',
                    retry_after=BUSY_SECONDS,
                )
            self._taken[user] += 1
        return lambda: self._release(user)

    def _release(self, user: str) -> None:
        with self._lock:
            self._taken[user] -= 1
            self._taken += Counter()


def answer(
    lines: Callable[[], Iterator[str]], actor: Actor, *, follow: bool, media_type: str = "text/plain"
) -> Response:
    """A response that streams the lines; an empty line is a keep-alive and is not sent. It occupies one of this process's
    slots, for followers or for other readers, until it has ended.

    Raises Unavailable when no slot is free, and whatever `lines` raises before its first line, so that such errors are
    answered in the envelope.
    """
    release = (_follower_slots() if follow else _reader_slots()).take(actor.name)
    try:
        rest = lines()
        first = next(rest, None)
    except BaseException:
        release()
        raise
    response = Response(_text(first, rest, ClientConnection(request.environ)), mimetype=media_type)
    response.call_on_close(release)
    return response


def _text(first: str | None, rest: Iterator[str], connection: ClientConnection) -> Iterator[bytes]:
    """The body. A keep-alive adds no text: it makes the server send the headers, and is when the connection is checked."""
    if first is not None:
        for line in itertools.chain((first,), rest):
            if not line and connection.closed:
                return
            yield line.encode("utf-8", "replace")


@part
def _follower_slots() -> StreamSlots:
    return StreamSlots("log followers", settings().log_followers)


@part
def _reader_slots() -> StreamSlots:
    return StreamSlots("log readers", settings().log_followers)


class ClientConnection:
    """The connection that a request came by, for an answer that is streamed, or only waited for. `closed` is always false where
    the WSGI server does not expose it.

    A client whose machine vanished without closing the connection is noticed by TCP keep-alive, after 25 s.
    """

    def __init__(self, environ: Mapping[str, Any], *, streamed: bool = True) -> None:
        self._poll = select.poll()
        connection = next((environ[name] for name in CONNECTION_KEYS if name in environ), None)
        if streamed and isinstance(connection, ClientSocket):
            connection.stream()
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
