"""Answers that are text, line by line as it comes."""

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
"""When to ask again after being told that there are too many followers."""

SERVERS_SOCKETS = ("gunicorn.socket", "werkzeug.socket")
"""Where WSGI servers put the connection; the WSGI standard knows none."""

IDLE_SECONDS, PROBE_SECONDS, PROBES = 10, 5, 3


def answer(lines: Callable[[], Iterator[str]], *, follow: bool) -> Response:
    """The lines as an answer; an empty one is a sign of life. A follower takes one of this process's places until the answer
    has ended.

    Raises Unavailable when there is none, and whatever the lines raise before the first of them: that can still be told in
    the usual form.
    """
    release = _follow() if follow else _nothing
    try:
        rest = lines()
        first = next(rest, None)
    except BaseException:
        release()
        raise
    response = Response(_text(first, rest, Reader(request.environ)), mimetype="text/plain")
    response.call_on_close(release)
    return response


def _text(first: str | None, rest: Iterator[str], reader: Reader) -> Iterator[bytes]:
    """The answer's body. Signs of life are no text of it; they send its head, and are when to look for the reader."""
    if first is not None:
        for line in itertools.chain((first,), rest):
            if not line and reader.gone:
                return
            yield line.encode("utf-8", "replace")


def _follow() -> Callable[[], None]:
    """Take a place for followers; what is returned gives it back. Raises Unavailable."""
    places = _places()
    if not places.acquire(blocking=False):
        raise Unavailable(
            f"This process serves {settings().log_followers} log followers already; try again later.",
            retry_after=BUSY_SECONDS,
        )
    return places.release


def _nothing() -> None:
    pass


@part
def _places() -> threading.Semaphore:
    return threading.Semaphore(settings().log_followers)


class Reader:
    """Who sent a request. `gone` is always false where the server does not give its connection away.

    A reader whose machine has vanished without closing the connection is noticed by probes, after 25 s.
    """

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._poll = select.poll()
        connection = next((environ[name] for name in SERVERS_SOCKETS if name in environ), None)
        if connection is not None:
            self._poll.register(connection, select.POLLRDHUP)
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)

    @property
    def gone(self) -> bool:
        """Whether the other side has closed the connection."""
        return bool(self._poll.poll(0))
