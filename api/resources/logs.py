"""Logs of jobs, streamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flask import Response, request

from api import streaming
from api.blueprint import Call
from api.resources.jobs import blueprint
from api.schemas.jobs import JSON_FORMAT, LogRecordsQuery
from pipeline_core.auth.privileges import Privilege
from pipeline_core.clusters.base import LogQuery
from pipeline_core.clusters.log_cursor import LogCursor
from pipeline_core.database import transaction
from pipeline_core.errors import WrongParameter
from pipeline_core.jobs import logs

RECORDS = "application/x-ndjson"
"""JSON objects, one on each line."""


@blueprint.operation(
    "GET",
    "/logs/<job_id>",
    needs=Privilege.READ_JOB,
    query=LogRecordsQuery,
    streams=("text/plain", RECORDS),
    error_statuses=(410,),
)
def job_logs(call: Call, job_id: str) -> Response:
    """What a job's replicas wrote, also after their pods were deleted

    Lines of several replicas are merged by time and prefixed with their source. 410 once the logs have expired. With
    `format=json` each line is a JSON object (`time`, `source`, `text`, `open`), and between them stands `{"cursor": …}` now and
    then: whoever drops what came after the last one and asks again with this `cursor` loses no line and gets none twice.
    """
    asked = call.query
    _check_cursor(asked)
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
    if asked["format"] == JSON_FORMAT:
        start = asked.get("cursor") or LogCursor()
        return streaming.answer(
            lambda: logs.records(job_id, query, start), call.actor, follow=query.follow, media_type=RECORDS
        )
    return streaming.answer(lambda: logs.lines(job_id, query), call.actor, follow=query.follow)


def _check_cursor(asked: Mapping[str, Any]) -> None:
    """Raises WrongParameter when a cursor stands beside what it does not go with."""
    if "cursor" not in asked:
        return
    if asked["format"] != JSON_FORMAT:
        raise WrongParameter("cursor is for format=json only: plain text has no cursors to go on with.")
    for name in ("tail", "since"):
        if name in asked:
            raise WrongParameter(f"cursor and {name} are both given; a cursor says by itself where to begin.")
