"""Flows: their documents, and starting runs of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from werkzeug.routing import BaseConverter

from api import paging
from api.blueprint import Blueprint, Call
from api.idempotency import KEY_HEADER, repeatable
from api.openapi import RequestBody
from api.paging import Page
from api.schemas import flows as forms
from api.schemas import runs as run_forms
from api.schemas.fields import Pages
from pipeline_core.auth import idempotency
from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_run_id
from pipeline_core.database import transaction
from pipeline_core.flows import lookup
from pipeline_core.flows.notation.names import RESERVED_FLOW_NAMES
from pipeline_core.flows.runs import creation
from pipeline_core.flows.states import Trigger
from pipeline_core.flows.store import flows

blueprint = Blueprint("flows", __name__, url_prefix="/v1/flows", description="DAGs of tasks.")


class FlowNameConverter(BaseConverter):
    """A flow's name in a path: not one of the words that other paths have in its place."""

    regex = f"(?!(?:{'|'.join(sorted(RESERVED_FLOW_NAMES))})$)[^/]+"
    part_isolating = True


_ENTRY = {
    "pipeline": {
        "name": "sales",
        "dag_json": {"load": {}, "report": {"upstream": ["load"]}},
        "global_env": "DAY={{execution_date[:10]}}",
    },
    "tasks": [
        {
            "job_templete": "customize",
            "name": "load",
            "resource_memory": "2G",
            "args": {"images": "busybox", "command": "echo -n {{DAY}} > /output"},
        },
        {"job_templete": "python", "name": "report", "args": {"code": "print('{{load.output}}')"}},
    ],
}
_RUN_ID = "r01kb5gqz5sk4q7r3f0m7h2k9xz"
_OF_A_FLOW = ("flow_detail", "flow_layout", "flow_grid", "replace", "delete", "run", "flow_runs")
_OF_A_RUN = ("run_detail", "run_layout", "run_logs", "metrics", "stop", "retry", "dismiss", "clear")
_RUN_LINKS = {f"runs.{name}": ("run_id", "runID") for name in _OF_A_RUN}
_RUN_BODY = {"variables": {"DAY": "2026-03-01"}, "reason": "late data"}


@blueprint.operation(
    "POST",
    "",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.FlowEntry, example=_ENTRY),
    payload=forms.FlowName,
    error_statuses=(409,),
    example={"name": "sales"},
    links=dict.fromkeys(_OF_A_FLOW, ("name", "name")),
)
def create(call: Call) -> Any:
    """Create a flow from one entry of an import document"""
    with transaction() as session:
        return {"name": flows.create(session, call.body, call.actor)}


@blueprint.operation(
    "POST",
    "/check",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.CHECKED, example=_ENTRY),
    query=forms.LayoutQuery,
    payload=forms.FlowCheck,
)
def check(call: Call) -> Any:
    """Check a flow without storing it; the answer has all that is wrong with it, and its layout

    A flow that is wrong is no error of this request: what creating or replacing it would refuse is in `errors`.
    """
    with transaction() as session:
        return flows.check(session, call.body, call.actor, call.query["most"])


@blueprint.operation(
    "POST",
    "/import",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.DOCUMENT, example={"sales": _ENTRY}),
    payload=forms.FlowNames,
    example={"flows": ["sales"], "paused": ["sales"]},
)
def import_document(call: Call) -> Any:
    """Import the flows of a document, all of them or none

    A flow that exists is replaced. Schedules that are new or have changed are paused; `paused` says which.
    """
    with transaction() as session:
        return flows.import_document(session, call.body, call.actor)


@blueprint.operation(
    "GET",
    "/export",
    needs=Privilege.READ_JOB,
    query=forms.Export,
    payload=forms.EXPORT,
    error_statuses=(404,),
    example={"sales": _ENTRY},
)
def export(call: Call) -> Any:
    """The import document of flows, as they were imported"""
    with transaction() as session:
        return flows.export(session, call.query.get("names", ()), call.actor)


@blueprint.operation("GET", "", needs=Privilege.READ_JOB, query=Pages, payload=forms.FlowSummary, paged=True)
def flow_list(call: Call) -> Page:
    """Flows by name"""
    limit, offset = paging.limit_and_offset(call.query)
    with transaction() as session:
        found, total = flows.listing(session, call.actor, limit=limit, offset=offset)
    return paging.page(found, total, call.query)


@blueprint.operation("GET", "/<flow:name>", needs=Privilege.READ_JOB, payload=forms.FlowEntry, example=_ENTRY)
def flow_detail(call: Call, name: str) -> Any:
    """A flow as it was imported"""
    with transaction() as session:
        return lookup.visible(session, name, call.actor).entry


@blueprint.operation(
    "GET",
    "/<flow:name>/layout",
    needs=Privilege.READ_JOB,
    query=forms.LayoutQuery,
    payload=forms.FlowLayout,
)
def flow_layout(call: Call, name: str) -> Any:
    """Where the tasks of a flow are drawn: in layers, ordered so that few edges cross

    Of thousands of tasks some are drawn as groups, so that there are about `most` nodes.
    """
    with transaction() as session:
        return flows.layout_of(session, name, call.actor, call.query["most"])


@blueprint.operation(
    "PUT",
    "/<flow:name>",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.FlowEntry, example=_ENTRY),
)
def replace(call: Call, name: str) -> None:
    """Replace a flow; its creator stays, and its runs keep the definition that they were started with"""
    with transaction() as session:
        flows.replace(session, name, call.body, call.actor)


@blueprint.operation("DELETE", "/<flow:name>", needs=Privilege.WRITE_JOB, error_statuses=(409,))
def delete(call: Call, name: str) -> None:
    """Delete a flow with the history of its runs, which must all have ended"""
    with transaction() as session:
        flows.delete(session, name, call.actor)


_starting = partial(
    blueprint.operation,
    "POST",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(run_forms.RunBody, required=False, example=_RUN_BODY),
    payload=run_forms.RunStarted,
    error_statuses=(404, 409),
    parameters=(KEY_HEADER,),
    example={"runID": _RUN_ID},
    links=_RUN_LINKS,
)


@_starting("/<flow:name>/run")
def run(call: Call, name: str) -> Any:
    """Start a run; `variables` override values of `global_env`"""
    return _started(call, name, Trigger.MANUAL)


@_starting("/<flow:name>/tasks/<task>/run")
def run_task(call: Call, name: str, task: str) -> Any:
    """Start a run of one task alone"""
    return _started(call, name, Trigger.TASK, task)


@_starting("/<flow:name>/tasks/<task>/debug")
def debug_task(call: Call, name: str, task: str) -> Any:
    """Start a pod that sleeps in place of a task's command; the run's detail shows how to open a shell in it"""
    return _started(call, name, Trigger.DEBUG, task)


def _started(call: Call, name: str, trigger: Trigger, task: str | None = None) -> Any:
    run_id = new_run_id(now())
    with transaction() as session:
        flow = lookup.visible(session, name, call.actor, keep=True)
        if earlier := idempotency.claim(session, call.actor, repeatable(call), run_id):
            return {"runID": earlier}
        creation.create(
            session,
            flow,
            trigger=trigger,
            execution_date=now(),
            runner=call.actor.name,
            variables=call.body["variables"] or {},
            only=task,
            reason=call.body["reason"],
            request_id=call.actor.request_id,
            actor=call.actor,
            run_id=run_id,
        )
    return {"runID": run_id}
