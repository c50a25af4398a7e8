"""Logs of jobs, streamed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from flask import Response, request

from api.blueprint import Call
from api.readers import Reader
from api.resources.jobs import blueprint
from api.schemas.jobs import LogQueryParameters
from pipeline_core.clusters.base import LogQuery
from pipeline_core.database import transaction
from pipeline_core.errors import Unavailable
from pipeline_core.jobs import logs
from pipeline_core.settings import settings
from pipeline_core.tokens.privileges import Privilege

BUSY_SECONDS = 30
"""When to ask again after being told that there are too many followers."""


@blueprint.operation(
    "GET",
    "/logs/<job_id>",
    needs=Privilege.READ_JOB,
    query=LogQueryParameters,
    streams="text/plain",
    refusals=(404, 410),
)
def job_logs(call: Call, job_id: str) -> Response:
    """What a job's replicas wrote, still there after they have gone

    Lines of several replicas are merged by time and prefixed with their source. 410 when they were kept for long enough.
    """
    asked = call.query
    query = LogQuery(
        role=asked.get("task"),
        index=asked.get("replica"),
        attempt=asked.get("attempt"),
        tail=asked.get("tail"),
        since=asked.get("since"),
        follow=asked["follow"] and request.method != "HEAD",
    )
    query = replace(query, finished=logs.finished(job_id, query))
    with transaction() as session:
        logs.check(session, job_id, call.actor, query)
    release = _follow() if query.follow else _nothing
    try:
        lines = logs.lines(job_id, query)
        # What fails before the first line can still be told in the usual form.
        first = next(lines, None)
    except BaseException:
        release()
        raise
    response = Response(_text(first, lines, Reader(request.environ)), mimetype="text/plain")
    response.call_on_close(release)
    return response


def _text(first: str | None, lines: Iterator[str], reader: Reader) -> Iterator[bytes]:
    """The answer's body. Signs of life are no text of it; they send its head, and are when to look for the reader."""
    if first is not None:
        for line in itertools.chain((first,), lines):
            if not line and reader.gone:
                return
            yield line.encode("utf-8", "replace")


def _follow() -> Callable[[], None]:
    """Take one of this process's places for followers; what is returned gives it back. Raises Unavailable."""
    places = _places()
    if not places.acquire(blocking=False):
        raise Unavailable(
            f"This process serves {settings().log_followers} log followers already; try again later.",
            retry_after=BUSY_SECONDS,
        )
    return places.release


def _nothing() -> None:
    pass


@cache
def _places() -> threading.Semaphore:
    return threading.Semaphore(settings().log_followers)
