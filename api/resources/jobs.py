"""Submitting, changing and reading jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api import paging
from api.blueprint import Blueprint, Call
from api.idempotency import KEY_HEADER, repeatable
from api.openapi import RequestBody
from api.paging import Page
from api.schemas import jobs as forms
from api.schemas import packets as packet_forms
from api.schemas.plan import JobPlan, StoredJobPlan
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import transaction
from pipeline_core.errors import WrongParameter
from pipeline_core.jobs import (
    blame,
    control,
    detail,
    explanation,
    packets,
    past_packets,
    queries,
    submission,
    trail,
    views,
)
from pipeline_core.jobs.queries import JobFilter
from pipeline_core.stages.names import Stage
from pipeline_core.validation.texts import shown

blueprint = Blueprint("jobs", __name__, url_prefix="/v1/job", description="Jobs, from submission to their end.")

_EXAMPLE = {
    "userID": "ada",
    "jobName": "mnist",
    "jobKind": "TFJob",
    "header": {"type": "debug"},
    "job": {"kind": "TFJob", "replicas": 2},
}
_ID = "j01kb5gqz5sk4q7r3f0m7h2k9xz"
_OF_A_JOB = (
    *(
        "job_detail",
        "config",
        "taskset",
        "job_blame",
        "job_packet",
        "job_trail",
        "job_events",
        "job_logs",
        "explain_stored",
    ),
    *("stop", "resume", "retry"),
)


@blueprint.operation(
    "POST",
    "",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.Submit, example=_EXAMPLE),
    payload=forms.Submitted,
    error_statuses=(409,),
    parameters=(KEY_HEADER,),
    example={"jobID": _ID},
    links=dict.fromkeys(_OF_A_JOB, ("job_id", "jobID")),
)
def submit(call: Call) -> Any:
    """Submit a job; it is stored durably before the answer is sent"""
    return {"jobID": submission.submit(call.body, call.actor, repeatable=repeatable(call))}


@blueprint.operation(
    "POST",
    "/explain",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.Submit, example=_EXAMPLE),
    payload=JobPlan,
)
def explain(call: Call) -> Any:
    """Which plugins would be called for a job, and why

    Takes what a submission takes and refuses what it refuses. Nothing is stored, and no plugin is called.
    """
    with transaction() as session:
        return explanation.explain(session, call.body, call.actor).to_json()


@blueprint.operation("GET", "/explain/<job_id>", needs=Privilege.READ_JOB, payload=StoredJobPlan)
def explain_stored(call: Call, job_id: str) -> Any:
    """What would be foretold of a job now, beside what happened to it

    The stages and plugins as for a job that is not submitted yet, by the features as they stand now; and of each stage the
    calls that were made.
    """
    with transaction() as session:
        return explanation.explain_stored(session, job_id, call.actor)


@blueprint.operation("GET", "/blame/<job_id>", needs=Privilege.READ_JOB, payload=forms.Blame)
def job_blame(call: Call, job_id: str) -> Any:
    """Which plugin put what into a job's TaskSet

    The patches, applied one after the other to `first`, give `taskset`. Values are as in the TaskSet: none is masked.
    """
    with transaction() as session:
        return blame.blame(session, job_id, call.actor)


@blueprint.operation(
    "PUT",
    "/stop/<job_id>",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.JobReason, required=False, example={"reason": "wrong data"}),
    error_statuses=(409,),
)
def stop(call: Call, job_id: str) -> None:
    """Stop a job; stopping a stopped one succeeds"""
    _require_same(call, job_id)
    control.stop(job_id, call.actor, reason=call.body["reason"])


@blueprint.operation(
    "PUT",
    "/resume/<job_id>",
    needs=(Privilege.WRITE_JOB, Privilege.APPROVE_JOB),
    body=RequestBody(forms.ResumeReason, required=False, example={"reason": "quota granted"}),
    error_statuses=(409,),
)
def resume(call: Call, job_id: str) -> None:
    """Resume a suspended job; of several concurrent requests, one succeeds

    Past a gate that is registered with `"resume": "approver"` this takes `approve_job`, and the token of somebody else than
    the job's user; otherwise `write_job`.
    """
    _require_same(call, job_id)
    control.resume(job_id, call.actor, reason=call.body["reason"], gate=call.body["gate"] or None)


@blueprint.operation(
    "POST",
    "/retry/<job_id>",
    needs=Privilege.WRITE_JOB,
    payload=forms.Submitted,
    error_statuses=(409,),
    parameters=(KEY_HEADER,),
    example={"jobID": _ID},
)
def retry(call: Call, job_id: str) -> Any:
    """Submit a failed or stopped job again, as a new job"""
    return {"jobID": control.retry(job_id, call.actor, repeatable(call))}


@blueprint.operation(
    "GET",
    "/config/<job_id>",
    needs=Privilege.READ_JOB,
    payload={"type": "object"},
    example=_EXAMPLE["job"],
)
def config(call: Call, job_id: str) -> Any:
    """The job as it was submitted, its keys in their order"""
    with transaction() as session:
        return queries.submitted(session, job_id, call.actor)


@blueprint.operation("GET", "/taskset/<job_id>", needs=Privilege.READ_JOB, payload={"type": "object"})
def taskset(call: Call, job_id: str) -> Any:
    """The job's current TaskSet; 404 before translation"""
    with transaction() as session:
        return queries.taskset(session, job_id, call.actor)


@blueprint.operation("GET", "/detail/<job_id>", needs=Privilege.READ_JOB, payload=forms.Detail)
def job_detail(call: Call, job_id: str) -> Any:
    """Everything about a job, also after its pods were deleted"""
    with transaction() as session:
        return detail.detail(session, job_id, call.actor)


@blueprint.operation(
    "GET",
    "/list",
    needs=Privilege.READ_JOB,
    query=forms.JobList,
    payload=forms.JobSummary,
    paged=True,
)
def job_list(call: Call) -> Page:
    """Jobs in the order of their submission

    Deep in a long list use `cursor`: high page numbers are slow.
    """
    query = call.query
    number, size, cursor = query.get("pageNumber"), query["pageSize"], query.get("cursor")
    if cursor is not None and number is not None:
        raise WrongParameter("pageNumber and cursor are both given; a page is found by one of them.")
    after, total = paging.decode_cursor(cursor) if cursor is not None else (None, None)
    with transaction() as session:
        found = queries.listing(
            session,
            _filter(query),
            call.actor,
            limit=size,
            offset=((number or 1) - 1) * size,
            after=after,
            ascending=query["order"] == "asc",
            total=total,
        )
    return Page(
        [views.summary(job) for job in found.jobs],
        found.total,
        size,
        None if cursor is not None else number or 1,
        paging.encode_cursor(found.last, found.total) if found.last else None,
    )


@blueprint.operation(
    "GET",
    "/count",
    needs=Privilege.READ_JOB,
    query=forms.JobFilters,
    payload=forms.Count,
    example={"count": 42},
)
def job_count(call: Call) -> Any:
    """How many jobs there are, exactly"""
    with transaction() as session:
        return {"count": queries.count(session, _filter(call.query), call.actor)}


@blueprint.operation(
    "GET",
    "/packet/<job_id>",
    needs=Privilege.READ_JOB,
    query=packet_forms.PacketOf,
    payload={"type": "object"},
)
def job_packet(call: Call, job_id: str) -> Any:
    """The packet that the plugins of a stage were sent for a job; 404 if it has not come so far

    Values of environment variables whose names look secret are masked.
    """
    with transaction() as session:
        return packets.packet(session, job_id, Stage(call.query["stage"]), call.actor)


@blueprint.operation(
    "GET",
    "/packets",
    needs=Privilege.READ_JOB,
    query=packet_forms.PastPacketsOf,
    payload=packet_forms.PastPackets,
)
def job_packets(call: Call) -> Any:
    """The packets that the plugins of a stage were sent for past jobs, and what these plugins answered; a page of them

    Only of jobs for which a plugin of the stage answered. Values of environment variables whose names look secret are masked.
    """
    query = dict(call.query)
    stage, plugin, cursor = Stage(query.pop("stage")), query.pop("plugin"), query.pop("cursor", None)
    with transaction() as session:
        found = past_packets.page(session, stage, _filter(query), call.actor, plugin_key=plugin, cursor=cursor)
    return {"jobs": found.jobs, "cursor": found.cursor}


@blueprint.operation(
    "GET",
    "/trail/<job_id>",
    needs=Privilege.READ_JOB,
    payload={"type": "array", "items": forms.TrailItem},
)
def job_trail(call: Call, job_id: str) -> Any:
    """Every plugin call and every resume of a job, in order

    Values of environment variables whose names look secret are masked.
    """
    with transaction() as session:
        return trail.trail(session, job_id, call.actor)


@blueprint.operation(
    "GET",
    "/events/<job_id>",
    needs=Privilege.READ_JOB,
    payload={"type": "array", "items": forms.EventItem},
)
def job_events(call: Call, job_id: str) -> Any:
    """Every change of a job's state, and the status of its deliveries"""
    with transaction() as session:
        return trail.events(session, job_id, call.actor)


def _filter(query: Mapping[str, Any]) -> JobFilter:
    return JobFilter(
        users=query.get("userID", ()),
        kinds=query.get("kind", ()),
        states=query.get("state", frozenset()),
        stages=query.get("stage", ()),
        suspended_by=query.get("suspendedBy", ()),
        name_prefix=query.get("name", ""),
        start_at=query.get("startAt"),
        end_at=query.get("endAt"),
    )


def _require_same(call: Call, job_id: str) -> None:
    """Raises WrongParameter when the body's `jobID` differs from the path's."""
    if call.body["jobID"] not in (None, job_id):
        text = f"must be equal to the path's, {shown(job_id)}"
        raise WrongParameter(f"jobID: {text}", errors={"jobID": [text]})
