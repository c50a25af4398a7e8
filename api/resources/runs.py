"""Runs of flows: list, show, stop, retry, mark tasks, logs and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from api import envelope, paging, streaming
from api.blueprint import Blueprint, Call
from api.openapi import PAGE_HEADERS, RequestBody
from api.paging import Page
from api.resources.flows import blueprint as flows
from api.schemas import runs as forms
from api.schemas.flows import FlowLayout, LayoutQuery
from api.schemas.jobs import Reason
from pipeline_core.auth.privileges import Privilege
from pipeline_core.clusters.base import LogQuery
from pipeline_core.database import transaction
from pipeline_core.flows import lookup
from pipeline_core.flows.runs import control, logs, queries
from pipeline_core.flows.runs.queries import with_usage

blueprint = Blueprint("runs", __name__, url_prefix="/v1/runs", description="Runs of flows.")

_WHY = {"reason": "wrong data"}


@flows.operation(
    "GET",
    "/<flow:name>/runs",
    needs=Privilege.READ_JOB,
    query=forms.RunFilters,
    payload=forms.RunSummary,
    paged=True,
)
def flow_runs(call: Call, name: str) -> Page:
    """Runs of a flow, the newest first"""
    with transaction() as session:
        flow = lookup.visible(session, name, call.actor)
        return _page(session, call, flow.key)


@flows.operation(
    "GET",
    "/<flow:name>/grid",
    needs=Privilege.READ_JOB,
    query=forms.GridQuery,
    payload=forms.Grid,
    headers=PAGE_HEADERS,
)
def flow_grid(call: Call, name: str) -> Response:
    """Runs of a flow, the newest first, with the states of its tasks in them

    The tasks are those of the flow as it is now. Of a flow with more tasks than `taskLimit`, go on with `taskOffset`.
    """
    limit, offset = paging.limit_and_offset(call.query)
    with transaction() as session:
        flow = lookup.visible(session, name, call.actor)
        found, total = queries.grid(
            session,
            flow,
            call.actor,
            limit=limit,
            offset=offset,
            tasks=call.query["taskLimit"],
            task_offset=call.query["taskOffset"],
        )
    response = envelope.success(found)
    response.headers.extend(paging.page(found["runs"], total, call.query).headers)
    return response


@blueprint.operation("GET", "", needs=Privilege.READ_JOB, query=forms.RunList, payload=forms.RunSummary, paged=True)
def run_list(call: Call) -> Page:
    """Runs of all flows, the newest first"""
    with transaction() as session:
        return _page(session, call, call.query.get("flow"))


@blueprint.operation("GET", "/<run_id>", needs=Privilege.READ_JOB, payload=forms.RunDetail)
def run_detail(call: Call, run_id: str) -> Any:
    """A run with its tasks, and the resource usage of those that are running"""
    with transaction() as session:
        found = queries.detail(session, run_id, call.actor)
    return with_usage(found)


@blueprint.operation("GET", "/<run_id>/layout", needs=Privilege.READ_JOB, query=LayoutQuery, payload=FlowLayout)
def run_layout(call: Call, run_id: str) -> Any:
    """Where the tasks of a run are drawn, with the dependencies that the flow had when the run began

    Of thousands of tasks some are drawn as groups, so that there are about `most` nodes.
    """
    with transaction() as session:
        return queries.graph(session, run_id, call.actor, call.query["most"])


@blueprint.operation(
    "PUT",
    "/<run_id>/stop",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(Reason, required=False, example=_WHY),
    error_statuses=(409,),
)
def stop(call: Call, run_id: str) -> None:
    """Stop a run with the jobs of its tasks; stopping a stopped one succeeds"""
    control.stop(run_id, call.actor, reason=call.body["reason"])


@blueprint.operation("POST", "/<run_id>/retry", needs=Privilege.WRITE_JOB, error_statuses=(409,))
def retry(call: Call, run_id: str) -> None:
    """Run the failed and stopped tasks of an ended run again, and the tasks that depend on them"""
    control.retry(run_id, call.actor)


@blueprint.operation("PUT", "/<run_id>/dismiss", needs=Privilege.WRITE_JOB, error_statuses=(409,))
def dismiss(call: Call, run_id: str) -> None:
    """Let the next scheduled run go on as if this one had succeeded"""
    control.dismiss(run_id, call.actor)


@blueprint.operation("DELETE", "/<run_id>", needs=Privilege.WRITE_JOB, error_statuses=(409,))
def clear(call: Call, run_id: str) -> None:
    """Delete a run that has ended, or end a debug pod"""
    control.clear(run_id, call.actor)


@blueprint.operation(
    "PUT",
    "/<run_id>/tasks/<task>",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.Mark, example={"mark": "succeeded", "reason": "done by hand"}),
    error_statuses=(409,),
)
def mark(call: Call, run_id: str, task: str) -> None:
    """Let a failed or waiting task count as succeeded or skipped"""
    control.mark(run_id, task, call.body["mark"], call.actor, reason=call.body["reason"])


@blueprint.operation(
    "GET",
    "/<run_id>/logs",
    needs=Privilege.READ_JOB,
    query=forms.RunLogQuery,
    streams="text/plain",
    error_statuses=(410,),
)
def run_logs(call: Call, run_id: str) -> Response:
    """What the tasks of a run wrote, also after their pods were deleted

    Lines of several tasks are merged by time and prefixed with their task; each task's are those of its last attempt, or
    of `attempt`. 410 once all of them have expired.
    """
    asked = call.query
    query = LogQuery(
        tail=asked.get("tail"), since=asked.get("since"), follow=asked["follow"] and request.method != "HEAD"
    )
    task, attempt = asked.get("task"), asked.get("attempt")
    with transaction() as session:
        logs.check(session, run_id, task, call.actor, attempt)
    return streaming.answer(lambda: logs.lines(run_id, task, query, attempt), call.actor, follow=query.follow)


@blueprint.operation("GET", "/<run_id>/metrics", needs=Privilege.READ_JOB, payload=forms.METRICS)
def metrics(call: Call, run_id: str) -> Any:
    """The metrics that the tasks of a run left, by task"""
    with transaction() as session:
        return queries.metrics(session, run_id, call.actor)


def _page(session: Any, call: Call, flow: str | None) -> Page:
    query: Mapping[str, Any] = call.query
    limit, offset = paging.limit_and_offset(query)
    found, total = queries.listing(
        session,
        call.actor,
        flow=flow,
        states=query.get("state", ()),
        triggers=query.get("trigger", ()),
        limit=limit,
        offset=offset,
    )
    return paging.page(found, total, query)
