"""Schemas of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, post_load, validate

from api.paging import DEFAULT_SIZE, MAX_NUMBER, MAX_SIZE
from api.schemas.bodies import BodyField, BodySchema, Object, Text, at_most, invalid, refuse_unstorable
from api.schemas.fields import (
    CommaSeparated,
    Flag,
    Query,
    States,
    Timestamp,
    UnixSeconds,
    WholeNumber,
    nullable_time,
)
from pipeline_core.clusters.log_cursor import LogCursor
from pipeline_core.database.engine import to_json
from pipeline_core.database.models import DeliveryStatus
from pipeline_core.errors import MissingParameter
from pipeline_core.jobs.submission import Submission
from pipeline_core.plugins.types import Mode, Resumer
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.validation.fields import EMPTY
from pipeline_core.validation.texts import DISGUISE, disguised, shown

MAX_TEXT = 255
MAX_HEADER_BYTES = 64 * 1024
MAX_REASON = 1000
STATE = validate.OneOf([state.value for state in JobState])


def _run() -> fields.String:
    return fields.String(
        required=True, allow_none=True, metadata={"description": "The run of a flow that the job is a task of."}
    )


def _gate() -> fields.String:
    return fields.String(required=True, allow_none=True, metadata={"description": "A gate's key."})


class JobConditions(Query):
    """Which jobs, wherever they are among their stages."""

    userID = CommaSeparated(metadata={"description": "Users, separated by commas."})
    kind = CommaSeparated(metadata={"description": "Kinds, separated by commas."})
    state = States(metadata={"description": "States, separated by commas; any case, aliases such as `completed` too."})
    suspendedBy = CommaSeparated(metadata={"description": "Keys of the gates that suspended, separated by commas."})
    name = fields.String(validate=validate.Length(1, 255), metadata={"description": "Prefix of the job's name."})
    startAt = UnixSeconds(metadata={"description": "Submitted at this unix second or later."})
    endAt = UnixSeconds(metadata={"description": "Submitted at this unix second or before."})


class JobFilters(JobConditions):
    """Which jobs."""

    stage = CommaSeparated(tuple(Stage), metadata={"description": "Stages, separated by commas."})


class JobList(JobFilters):
    """Which jobs, and which page of them."""

    order = fields.String(
        load_default="desc",
        validate=validate.OneOf(["asc", "desc"], error='It must be "asc" or "desc".'),
        metadata={"description": "By submission."},
    )
    pageNumber = WholeNumber(1, MAX_NUMBER, metadata={"description": "Not together with `cursor`."})
    pageSize = WholeNumber(1, MAX_SIZE, load_default=DEFAULT_SIZE)
    cursor = fields.String(metadata={"description": "The `X-Next-Cursor` of the page before."})


TEXT_FORMAT, JSON_FORMAT = "text", "json"


class LogQueryParameters(Query):
    """Which lines."""

    task = fields.String(validate=validate.Length(1, 63), metadata={"description": "A role of the TaskSet."})
    replica = WholeNumber(0, 9999, metadata={"description": "A replica's index."})
    attempt = WholeNumber(0, 10**6, metadata={"description": "Attempt of each replica, from 0; by default the last."})
    tail = WholeNumber(0, 10**9, metadata={"description": "Only so many lines from the end."})
    since = Timestamp(metadata={"description": "Lines from then on: RFC 3339, or unix seconds."})
    follow = Flag(
        load_default=False, metadata={"description": "Stream until all selected replicas have ended, retries included."}
    )


class LogCursorField(fields.String):
    """A cursor of logs; loads as a LogCursor."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        try:
            return LogCursor.of(value)
        except ValueError:
            raise ValidationError("It must be a cursor of an earlier answer.") from None


class LogRecordsQuery(LogQueryParameters):
    """Which lines, in which form."""

    format = fields.String(
        load_default=TEXT_FORMAT,
        validate=validate.OneOf([TEXT_FORMAT, JSON_FORMAT]),
        metadata={"description": "`json`: an object for each line, and cursors between them."},
    )
    cursor = LogCursorField(
        metadata={
            "description": "Of an earlier answer with `format=json`, to go on after it; without `tail` and `since`."
        }
    )


class JobTemplate(Schema):
    """The job to run; its format depends on its kind. Other fields are passed on unchanged."""

    class Meta:
        unknown = "include"

    kind = fields.String(required=True, validate=validate.Length(min=1), metadata={"description": "Equals `jobKind`."})
    apiVersion = fields.Raw(allow_none=True, metadata={"description": "Passed on unchanged."})


class _Job(BodyField, fields.Nested):
    """A job, unchanged; only its kind is checked."""

    def __init__(self) -> None:
        super().__init__(JobTemplate, required=True)

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, partial: Any = None, **options: Any
    ) -> Any:
        if not isinstance(value, dict):
            raise invalid(f"must be an object, not {shown(value)}")
        refuse_unstorable(value)
        own, kind = value.get("kind"), (data or {}).get("jobKind")
        if own in EMPTY:
            raise ValidationError({"kind": invalid(self.lacking, MissingParameter).messages})
        if isinstance(kind, str) and own != kind and kind:
            text = f"must be equal to jobKind, {shown(kind)}, not {shown(own)}"
            raise ValidationError({"kind": [text]})
        return value


def _header_size(header: Mapping[str, Any]) -> None:
    if len(to_json(header).encode()) > MAX_HEADER_BYTES:
        raise ValidationError(f"must be at most {MAX_HEADER_BYTES // 1024} KiB")


def _name_error(text: str) -> str | None:
    if disguised(text):
        return "must not contain control or direction characters"
    return "must not be blank" if text.isspace() else None


def _cluster_error(text: str) -> str | None:
    return None if text == (own := settings().cluster_name) else f'must be "{own}", the cluster of this installation'


def _name(**options: Any) -> Text:
    return Text(validate=at_most(MAX_TEXT), check=_name_error, **options)


def _required_name() -> Text:
    return _name(required=True, metadata={"pattern": rf"^[^{DISGUISE}]*[^{DISGUISE}\s][^{DISGUISE}]*$"})


class Submit(BodySchema):
    """A job."""

    userID = _required_name()
    jobName = _required_name()
    jobKind = _required_name()
    jobNameSpace = _name(metadata={"description": "The namespace, unless the TaskSet names one."})
    cluster = Text(
        check=_cluster_error,
        metadata={"description": "Where it is to run: the name of this installation's cluster."},
    )
    header = Object(validate=_header_size, metadata={"description": "What plugins select jobs by; at most 64 KiB."})
    job = _Job()

    @post_load
    def _submission(self, data: Mapping[str, Any], **_: Any) -> Submission:
        return Submission.of_job(
            data["job"],
            user_id=data["userID"],
            name=data["jobName"],
            kind=data["jobKind"],
            header=data["header"] or {},
            namespace=data["jobNameSpace"],
        )


class Submitted(Schema):
    """The job's ID."""

    jobID = fields.String(required=True, metadata={"example": "j01kb5gqz5sk4q7r3f0m7h2k9xz"})


class Reason(BodySchema):
    """Why."""

    reason = Text(validate=at_most(MAX_REASON))


class JobReason(Reason):
    """Why, and of which job."""

    jobID = Text(default=None, metadata={"description": "Equals the path's."})


class ResumeReason(JobReason):
    """Why, and of which gate."""

    gate = Text(metadata={"description": "Resume only what this gate (its key) suspended."})


class Count(Schema):
    """How many."""

    count = fields.Integer(required=True)


class JobSummary(Schema):
    """A job as lists show it."""

    jobID = fields.String(required=True)
    jobName = fields.String(required=True)
    jobKind = fields.String(required=True)
    userID = fields.String(required=True)
    runID = _run()
    state = fields.String(required=True, validate=STATE)
    stage = fields.String(required=True)
    reason = fields.String(required=True)
    suspendedBy = _gate()
    suspendedAt = nullable_time()
    resume = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf([resumer.value for resumer in Resumer]),
        metadata={"description": "Who resumes it; null unless it is suspended."},
    )
    createdAt = nullable_time()
    startAt = nullable_time()
    finishedAt = nullable_time()


class JobPart(Schema):
    """The job itself."""

    id = fields.String(required=True)
    name = fields.String(required=True)
    type = fields.String(required=True)
    state = fields.String(required=True, validate=STATE)
    userID = fields.String(required=True)
    startAt = nullable_time()
    finishedAt = nullable_time()
    totalRetriedCount = fields.Integer(required=True)
    exitCode = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "Of the first failed replica by role and index; 0 when succeeded."},
    )
    exitDiagnostics = fields.String(required=True)
    stage = fields.String(required=True, validate=validate.OneOf([stage.value for stage in Stage]))
    reason = fields.String(required=True)
    createdAt = nullable_time()
    suspendedBy = _gate()
    suspendedAt = nullable_time()
    retryOf = fields.String(required=True, allow_none=True, metadata={"description": "The job that this one retries."})
    runID = _run()
    traceID = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "The trace that the job belongs to: its client's, or its own with `PIPELINE_OTEL`."},
    )
    cleanup = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf(["pending", "done"]),
        metadata={
            "description": "How far the cluster has been cleaned up after the job's end; null before it, and without a launch."
        },
    )


class ReplicaPart(Schema):
    """One replica of a task."""

    index = fields.Integer(required=True)
    state = fields.String(required=True, validate=validate.OneOf([state.value for state in ReplicaState]))
    retriedCount = fields.Integer(
        required=True, metadata={"description": "How often the replica was retried, as the role's `retryPolicy` says."}
    )
    restartCount = fields.Integer(
        required=True,
        metadata={
            "description": "How often its containers were started again within this attempt (`restartPolicy: OnFailure`)."
        },
    )
    startAt = nullable_time()
    finishedAt = nullable_time()
    containerID = fields.String(required=True)
    containerHostIP = fields.String(required=True)
    exitCode = fields.Integer(required=True, allow_none=True)
    exitDiagnostics = fields.String(required=True)
    output = fields.String(metadata={"description": "What it wrote to `/output`, if anything."})
    outputProblem = fields.String(metadata={"description": "Why its `/output` is not shown."})
    metricsProblem = fields.String(metadata={"description": "Why its `/metric.json` is not stored."})


class ResourcePart(Schema):
    """Resources of a replica's main container."""

    requests = fields.Dict(required=True)
    limits = fields.Dict(required=True)


class TaskPart(Schema):
    """One role of the TaskSet; image, command and resource are those of its first container that counts."""

    name = fields.String(required=True)
    image = fields.String(required=True)
    state = fields.String(required=True, validate=validate.OneOf([state.value for state in ReplicaState]))
    command = fields.List(fields.String(), required=True)
    replicaAmount = fields.Integer(required=True)
    maxFailedTaskCount = fields.Integer(required=True)
    minSucceededTaskCount = fields.Integer(required=True)
    resource = fields.Nested(ResourcePart, required=True)
    replicas = fields.List(fields.Nested(ReplicaPart), required=True)


class ClusterPart(Schema):
    """Where the job runs."""

    identity = fields.String(required=True)


class Detail(Schema):
    """Everything about a job."""

    version = fields.String(required=True, validate=validate.OneOf(["v1"]))
    job = fields.Nested(JobPart, required=True)
    cluster = fields.Nested(ClusterPart, required=True)
    tasks = fields.List(fields.Nested(TaskPart), required=True)
    platformSpecificInfo = fields.Dict(
        required=True,
        allow_none=True,
        metadata={
            "description": "`platform`, `apiVersion`, `namespace`, `instanceUID`, `configMapUID`, `configMapName` and "
            "`taskRuntimeInfo`; null before the job reaches a cluster."
        },
    )


class PluginAnswer(Schema):
    """What a plugin answered, or what was made of a missing answer."""

    plugin = fields.String(required=True, metadata={"description": "The plugin's key."})
    durationMs = fields.Integer(required=True)
    outcome = fields.String(required=True)
    decision = fields.String(required=True)
    reason = fields.String(required=True)
    factors = fields.Raw(required=True, allow_none=True)
    patch = fields.Raw(required=True, allow_none=True, metadata={"description": "The change made, as RFC 6902."})
    leftOut = fields.Integer(
        metadata={"description": "How many factors and changes are left out: one response shows 4 MiB of them."}
    )


class TrailItem(PluginAnswer):
    """One plugin call, one resume, or what a shadow answered."""

    mode = fields.String(
        required=True,
        validate=validate.OneOf([mode.value for mode in Mode]),
        metadata={"description": "`shadow`: the answer of a shadow, which has decided nothing."},
    )
    stage = fields.String(required=True)
    asking = fields.Integer(
        required=True, metadata={"description": "Number of the call to this plugin, from 1; 0 of a shadow."}
    )
    attempts = fields.Integer(required=True)
    startedAt = nullable_time()
    actor = fields.String(required=True, metadata={"description": "Who resumed."})


class TaskSetChange(Schema):
    """What a plugin changed in a TaskSet."""

    stage = fields.String(required=True, allow_none=True)
    plugin = fields.String(
        required=True,
        metadata={"description": "The plugin's key; empty where it is not known any more whose change it is."},
    )
    at = nullable_time()
    patch = fields.List(fields.Dict(), required=True, metadata={"description": "RFC 6902."})


class Blame(Schema):
    """A job's first TaskSet, and the changes that made the present one of it."""

    first = fields.Dict(
        required=True,
        allow_none=True,
        metadata={"description": "Null for a job that is translated: its first patch has all."},
    )
    changes = fields.List(fields.Nested(TaskSetChange), required=True, metadata={"description": "In order."})
    taskset = fields.Dict(required=True, allow_none=True, metadata={"description": "Null before translation."})


class EventDelivery(Schema):
    """The delivery of an event to one subscriber."""

    id = fields.String(required=True, metadata={"description": "The `webhook-id`, the same on every attempt."})
    plugin = fields.String(required=True)
    status = fields.String(required=True, validate=validate.OneOf([status.value for status in DeliveryStatus]))
    attempts = fields.Integer(required=True)
    lastAnswer = fields.String(required=True)
    nextAt = nullable_time()
    finishedAt = nullable_time()


class StateChange(Schema):
    """One change of a job's state."""

    sequence = fields.Integer(required=True, metadata={"description": "Of the event within its job, from 1."})
    state = fields.String(required=True, validate=STATE)
    previousState = fields.String(required=True, metadata={"description": "Empty for a job's first event."})
    reason = fields.String(required=True)
    actor = fields.String(required=True)
    occurredAt = nullable_time()


class EventItem(StateChange):
    """One change of the job's state."""

    deliveries = fields.List(fields.Nested(EventDelivery), required=True)
