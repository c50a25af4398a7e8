"""Schemas of schedules of flows, and of their backfills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, post_load, validate, validates_schema

from api.schemas.bodies import BodySchema, Boolean, ChoiceField, Text
from api.schemas.fields import Query, WholeNumber, nullable_time
from pipeline_core.database.models import BackfillState
from pipeline_core.flows.schedules.backfills import DUE, BackfillOperation, BackfillRequest
from pipeline_core.flows.states import RunState

MAX_POINTS = 1000
_STATE = validate.OneOf([state.value for state in BackfillState])


def _timezone() -> fields.String:
    return fields.String(required=True, metadata={"description": "The time zone of the flow's schedule."})


class ScheduleQuery(Query):
    """How many points of a schedule."""

    count = WholeNumber(1, MAX_POINTS, load_default=10, metadata={"description": "How many of the next points."})


class ScheduleBody(BodySchema):
    """Whether a schedule is paused."""

    paused = Boolean(required=True)
    replay = Boolean(metadata={"description": "With `paused` false: the points that were missed are run."})

    @validates_schema
    def _replays_when_it_goes_on(self, data: Mapping[str, Any], **_: Any) -> None:
        if data["paused"] and data["replay"]:
            text = "goes with paused false: nothing is made up while a schedule is paused"
            raise ValidationError({"replay": [text]})


class Missed(Schema):
    """Past points that have no run."""

    count = fields.Integer(required=True)
    exact = fields.Boolean(
        required=True,
        metadata={"description": "`false` when there are at least so many: not all points were looked at."},
    )
    first = fields.List(nullable_time(), required=True, metadata={"description": "The oldest of them."})


class ScheduleState(Schema):
    """The state of a flow's schedule. Times are in UTC."""

    flow = fields.String(required=True)
    paused = fields.Boolean(required=True)
    cron = fields.String(required=True, allow_none=True, metadata={"description": "null without a schedule."})
    timezone = fields.String(required=True, allow_none=True)
    catchup = fields.Boolean(required=True, allow_none=True)
    since = nullable_time()
    next = fields.List(nullable_time(), required=True, metadata={"description": "The next points, paused or not."})
    missed = fields.Nested(Missed, required=True)
    fault = fields.String(required=True, metadata={"description": "Why no run can be made; empty when all is well."})


class BackfillBody(BodySchema):
    """Which points to run."""

    start = Text(
        required=True,
        data_key="from",
        metadata={"description": "RFC 3339, or `2026-03-01 00:00:00` in the flow's time zone; inclusive."},
    )
    end = Text(required=True, data_key="to", metadata={"description": "As `from`; inclusive; not in the future."})
    dryRun = Boolean(metadata={"description": "Only say which points."})
    stopOnFailure = Boolean(metadata={"description": "One point at a time, and none after one that failed."})

    @post_load
    def _request(self, data: Mapping[str, Any], **_: Any) -> BackfillRequest:
        return BackfillRequest(
            start=data["start"], end=data["end"], dry_run=data["dryRun"], stop_on_failure=data["stopOnFailure"]
        )


class LeftOut(Schema):
    """A point that is not run."""

    point = nullable_time()
    runID = fields.String(required=True, allow_none=True)
    state = fields.String(
        required=True,
        validate=validate.OneOf([*(state.value for state in RunState), DUE]),
        metadata={"description": f"The run's; `{DUE}` when the schedule is about to run the point itself."},
    )


class BackfillPlan(Schema):
    """The points that a backfill runs and leaves out."""

    points = fields.List(nullable_time(), required=True, metadata={"description": "Those that are run, oldest first."})
    leftOut = fields.List(fields.Nested(LeftOut), required=True)
    timezone = _timezone()
    backfillID = fields.String(metadata={"description": "Not after a dry run."})


class BackfillAction(BodySchema):
    """Whether to stop or to resume a backfill."""

    action = ChoiceField(BackfillOperation, required=True)


class BackfillSummary(Schema):
    """A backfill."""

    id = fields.String(required=True)
    flow = fields.String(required=True)
    timezone = _timezone()
    state = fields.String(required=True, validate=_STATE)
    reason = fields.String(required=True)
    stopOnFailure = fields.Boolean(required=True)
    runner = fields.String(required=True)
    first = fields.String(
        required=True,
        allow_none=True,
        data_key="from",
        metadata={"format": "date-time", "description": "Its first point."},
    )
    last = fields.String(
        required=True,
        allow_none=True,
        data_key="to",
        metadata={"format": "date-time", "description": "Its last point."},
    )
    total = fields.Integer(required=True, metadata={"description": "How many points it has."})
    made = fields.Integer(required=True, metadata={"description": "For how many of them a run was created."})
    createdAt = nullable_time()
    finishedAt = nullable_time()


class BackfillPoint(Schema):
    """A point of a backfill and its run."""

    point = nullable_time()
    runID = fields.String(required=True, allow_none=True)
    state = fields.String(required=True, validate=validate.OneOf([state.value for state in RunState]))


class BackfillDetail(BackfillSummary):
    """A backfill with its points."""

    points = fields.List(fields.Nested(BackfillPoint), required=True)
