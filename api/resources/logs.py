"""Logs of jobs, streamed."""

from __future__ import annotations

from dataclasses import replace

from flask import Response, request

from api import streaming
from api.blueprint import Call
from api.resources.jobs import blueprint
from api.schemas.jobs import LogQueryParameters
from pipeline_core.auth.privileges import Privilege
from pipeline_core.clusters.base import LogQuery
from pipeline_core.database import transaction
from pipeline_core.jobs import logs


@blueprint.operation(
    "GET",
    "/logs/<job_id>",
    needs=Privilege.READ_JOB,
    query=LogQueryParameters,
    streams="text/plain",
    error_statuses=(410,),
)
def job_logs(call: Call, job_id: str) -> Response:
    """What a job's replicas wrote, also after their pods were deleted

    Lines of several replicas are merged by time and prefixed with their source. 410 once the logs have expired.
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
    return streaming.answer(lambda: logs.lines(job_id, query), call.actor, follow=query.follow)
