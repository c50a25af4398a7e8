"""Schemas of the feed of events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from api.schemas.fields import CommaSeparated, Query, WholeNumber, nullable_time
from api.schemas.jobs import STATE
from pipeline_core.database.models import DeliveryStatus, FeedKind

MAX_EVENTS = 1000
MAX_WAIT_SECONDS = 25
LATEST = "latest"
KINDS = tuple(FeedKind)


class FeedPosition(fields.String):
    """A position in the feed, or `latest`; loads as a number, or as None."""

    _FORM = re.compile(f"[0-9]{{1,18}}|{LATEST}")

    def __init__(self, *, metadata: Mapping[str, Any], **options: Any) -> None:
        super().__init__(metadata={"pattern": f"^({self._FORM.pattern})$", **metadata}, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        if not self._FORM.fullmatch(value):
            raise ValidationError(f"It must be a whole number of at most 18 digits, or {LATEST}.")
        return None if value == LATEST else int(value)


class FeedQuery(Query):
    """Position in the feed, limit, and how long to wait."""

    after = FeedPosition(
        load_default=0,
        metadata={
            "description": "The `X-Next-Cursor` of the answer before, or a position; 0 is the beginning, `latest` the end."
        },
    )
    limit = WholeNumber(1, MAX_EVENTS, load_default=100, metadata={"description": "At most so many entries."})
    wait = WholeNumber(
        0,
        MAX_WAIT_SECONDS,
        load_default=0,
        metadata={"description": "For how many seconds to wait for an entry where there is none."},
    )
    kind = CommaSeparated(
        KINDS,
        load_default=(FeedKind.STATE,),
        metadata={"description": "Kinds, separated by commas; by default `state`, the changes of jobs' states."},
    )


class FeedTask(Schema):
    """A task of a run, as it has become."""

    name = fields.String(required=True)
    state = fields.String(required=True)
    attempt = fields.Integer(required=True)


class FeedItem(Schema):
    """An entry of the feed. Which of the fields after `occurredAt` it has depends on its `kind`."""

    position = fields.Integer(required=True, metadata={"description": "Grows along the feed; numbers may be left out."})
    kind = fields.String(required=True, validate=validate.OneOf([kind.value for kind in FeedKind]))
    jobID = fields.String(required=True, allow_none=True, metadata={"description": "Null for a run and its alerts."})
    runID = fields.String(
        required=True, allow_none=True, metadata={"description": "The run, or the run whose task the job is."}
    )
    userID = fields.String(required=True, metadata={"description": "The job's user, or the run's runner."})
    occurredAt = nullable_time()
    sequence = fields.Integer(metadata={"description": "`state`, `delivery`: number of the event within its job."})
    state = fields.String(metadata={"description": f"`state`: one of {', '.join(STATE.choices)}. `run`: the run's."})
    previousState = fields.String(metadata={"description": "`state`, `run`: empty for the first."})
    reason = fields.String(metadata={"description": "`state`, `stage`, `run`."})
    actor = fields.String(metadata={"description": "`state`: who changed it; empty for the service itself."})
    jobName = fields.String(metadata={"description": "`state`, `stage`."})
    jobKind = fields.String(metadata={"description": "`state`, `stage`."})
    namespace = fields.String(metadata={"description": "`state`, `stage`: where the job's pods run."})
    stage = fields.String(metadata={"description": "`stage`: where the job is now; `reason` says what it waits for."})
    flow = fields.String(metadata={"description": "`run`: the flow's name."})
    trigger = fields.String(metadata={"description": "`run`."})
    tasks = fields.List(
        fields.Nested(FeedTask), metadata={"description": "`run`: the first hundred of the tasks that have changed."}
    )
    tasksChanged = fields.Integer(metadata={"description": "`run`: how many tasks have changed."})
    deliveryID = fields.String(metadata={"description": "`delivery`."})
    plugin = fields.String(metadata={"description": "`delivery`: the subscriber's key."})
    status = fields.String(
        validate=validate.OneOf([status.value for status in DeliveryStatus]),
        metadata={"description": "`delivery`: `waiting` when it is sent again."},
    )
    attempts = fields.Integer(metadata={"description": "`delivery`."})
    lastAnswer = fields.String(metadata={"description": "`delivery`."})
