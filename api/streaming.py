"""Answers that are text, line by line as it comes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator

from flask import Response, request

from api.readers import Reader
from pipeline_core.errors import Unavailable
from pipeline_core.runtime import part
from pipeline_core.settings import settings

BUSY_SECONDS = 30
"""When to ask again after being told that there are too many followers."""


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
