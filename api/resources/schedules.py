"""Schedules of flows, and backfills of their past."""

from __future__ import annotations

from typing import Any

from api import paging
from api.blueprint import Blueprint, Call
from api.openapi import RequestBody
from api.paging import Page
from api.schemas import schedules as forms
from api.schemas.fields import Pages
from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.flows import lookup
from pipeline_core.flows.schedules import backfills, schedule_state

blueprint = Blueprint(
    "schedules", __name__, url_prefix="/v1", description="When flows run, and backfills of their past."
)

_BACKFILL = {"from": "2026-03-01 00:00:00", "to": "2026-03-07 00:00:00", "dryRun": True}


@blueprint.operation(
    "GET",
    "/flows/<flow:name>/schedule",
    needs=Privilege.READ_JOB,
    query=forms.ScheduleQuery,
    payload=forms.ScheduleState,
)
def schedule(call: Call, name: str) -> Any:
    """When a flow runs next, and what it has missed"""
    return _state(call, name, call.query["count"])


@blueprint.operation(
    "PUT",
    "/flows/<flow:name>/schedule",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.ScheduleBody, example={"paused": False, "replay": True}),
    payload=forms.ScheduleState,
    error_statuses=(409,),
)
def change_schedule(call: Call, name: str) -> Any:
    """Pause or resume a flow's schedule

    Points that were missed while it was paused are not run, unless `replay` is true.
    """
    if call.body["paused"]:
        schedule_state.pause(name, call.actor)
    else:
        schedule_state.resume(name, call.actor, replay=call.body["replay"])
    return _state(call, name, forms.ScheduleQuery().load({})["count"])


@blueprint.operation(
    "POST",
    "/flows/<flow:name>/backfill",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.BackfillBody, example=_BACKFILL),
    payload=forms.BackfillPlan,
    error_statuses=(409,),
    links={"backfill": ("backfill_id", "backfillID"), "change_backfill": ("backfill_id", "backfillID")},
)
def start_backfill(call: Call, name: str) -> Any:
    """Run points of a schedule's past, oldest first

    Points whose run is active or has succeeded are left out. A flow has one backfill at a time.
    """
    return backfills.start(name, call.body, call.actor)


@blueprint.operation(
    "GET",
    "/flows/<flow:name>/backfills",
    needs=Privilege.READ_JOB,
    query=Pages,
    payload=forms.BackfillSummary,
    paged=True,
)
def flow_backfills(call: Call, name: str) -> Page:
    """The backfills of a flow, the newest first"""
    limit, offset = paging.limit_and_offset(call.query)
    with transaction() as session:
        items, counted = backfills.listing(session, name, call.actor, limit=limit, offset=offset)
    return paging.page(items, counted, call.query)


@blueprint.operation(
    "GET",
    "/backfills/<backfill_id>",
    needs=Privilege.READ_JOB,
    payload=forms.BackfillDetail,
)
def backfill(call: Call, backfill_id: str) -> Any:
    """A backfill with its points and their runs"""
    with transaction() as session:
        return backfills.detail(session, backfill_id, call.actor)


@blueprint.operation(
    "PUT",
    "/backfills/<backfill_id>",
    needs=Privilege.WRITE_JOB,
    body=RequestBody(forms.BackfillAction, example={"action": "resume"}),
    payload=forms.BackfillDetail,
    error_statuses=(409,),
)
def change_backfill(call: Call, backfill_id: str) -> Any:
    """Stop a backfill, or resume one that failed or was stopped"""
    backfills.act(backfill_id, call.body["action"], call.actor)
    with transaction() as session:
        return backfills.detail(session, backfill_id, call.actor)


def _state(call: Call, name: str, count: int) -> Any:
    with transaction() as session:
        flow = lookup.visible(session, name, call.actor)
        return schedule_state.upcoming(session, flow, count, now())
