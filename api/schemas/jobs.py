"""Forms of everything about jobs."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.paging import DEFAULT_SIZE, MAX_NUMBER, MAX_SIZE
from api.schemas.fields import (
    BodySchema,
    Flag,
    Moment,
    Query,
    Second,
    States,
    Whole,
    Words,
    nullable_time,
)
from pipeline_core.jobs.submission import MAX_TEXT
from pipeline_core.stages.stage import Stage
from pipeline_core.states import JobState, ReplicaState

MAX_REASON = 1000
_PLAIN = {"pattern": r"^[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f\s][^\x00-\x1f\x7f]*$"}
STATE = validate.OneOf([state.value for state in JobState])


def _run() -> fields.String:
    return fields.String(
        required=True, allow_none=True, metadata={"description": "The run of a flow that the job is a task of."}
    )


class JobFilters(Query):
    """Which jobs."""

    userID = Words(metadata={"description": "Users, separated by commas."})
    kind = Words(metadata={"description": "Kinds, separated by commas."})
    state = States(metadata={"description": "States, separated by commas; any case, aliases such as `completed` too."})
    stage = Words(tuple(Stage), metadata={"description": "Stages, separated by commas."})
    suspendedBy = Words(metadata={"description": "Keys of the gates that suspended, separated by commas."})
    name = fields.String(validate=validate.Length(1, 255), metadata={"description": "What the job's name begins with."})
    startAt = Second(metadata={"description": "Submitted at this unix second or later."})
    endAt = Second(metadata={"description": "Submitted at this unix second or before."})


class JobList(JobFilters):
    """Which jobs, and which page of them."""

    order = fields.String(
        load_default="desc",
        validate=validate.OneOf(["asc", "desc"], error='It must be "asc" or "desc".'),
        metadata={"description": "By submission."},
    )
    pageNumber = Whole(1, MAX_NUMBER, metadata={"description": "Not together with `cursor`."})
    pageSize = Whole(1, MAX_SIZE, load_default=DEFAULT_SIZE)
    cursor = fields.String(metadata={"description": "The `X-Next-Cursor` of the page before."})


class LogQueryParameters(Query):
    """Which lines."""

    task = fields.String(validate=validate.Length(1, 63), metadata={"description": "A role of the TaskSet."})
    replica = Whole(0, 9999, metadata={"description": "A replica's index."})
    attempt = Whole(0, 10**6, metadata={"description": "Which try of each replica, from 0; by default the last."})
    tail = Whole(0, 10**9, metadata={"description": "Only so many lines from the end."})
    since = Moment(metadata={"description": "Lines from then on: RFC 3339, or unix seconds."})
    follow = Flag(
        load_default=False, metadata={"description": "Go on until what is asked for has ended, retries included."}
    )


class JobTemplate(Schema):
    """What is to run; its form is its kind's. Other fields are passed on untouched."""

    class Meta:
        unknown = "include"

    kind = fields.String(required=True, validate=validate.Length(min=1), metadata={"description": "Equals `jobKind`."})
    apiVersion = fields.Raw(allow_none=True, metadata={"description": "Passed on untouched."})


class Submit(BodySchema):
    """A job."""

    userID = fields.String(required=True, validate=validate.Length(1, MAX_TEXT), metadata=_PLAIN)
    jobName = fields.String(required=True, validate=validate.Length(1, MAX_TEXT), metadata=_PLAIN)
    jobKind = fields.String(required=True, validate=validate.Length(1, MAX_TEXT), metadata=_PLAIN)
    header = fields.Dict(metadata={"description": "What plugins select jobs by; at most 64 KiB."}, allow_none=True)
    job = fields.Nested(JobTemplate, required=True)
    jobNameSpace = fields.String(
        metadata={"description": "The namespace, unless the TaskSet names one."}, allow_none=True
    )
    cluster = fields.String(
        metadata={"description": "Where it is to run: the name of this installation's cluster."}, allow_none=True
    )


class Submitted(Schema):
    """The job's ID."""

    jobID = fields.String(required=True, metadata={"example": "j01kb5gqz5sk4q7r3f0m7h2k9xz"})


class Note(BodySchema):
    """Why."""

    jobID = fields.String(metadata={"description": "Equals the path's."}, allow_none=True)
    reason = fields.String(load_default="", validate=validate.Length(max=MAX_REASON), allow_none=True)


class ResumeNote(Note):
    """Why, and of which gate."""

    gate = fields.String(metadata={"description": "Resume only what this gate (its key) suspended."}, allow_none=True)


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
    suspendedBy = fields.String(required=True, allow_none=True, metadata={"description": "A gate's key."})
    suspendedAt = nullable_time()
    retryOf = fields.String(required=True, allow_none=True, metadata={"description": "The job that this one repeats."})
    runID = _run()
    cleanup = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf(["pending", "done"]),
        metadata={"description": "How far the cluster has been cleaned up after the job's end."},
    )


class ReplicaPart(Schema):
    """One replica of a task."""

    index = fields.Integer(required=True)
    state = fields.String(required=True, validate=validate.OneOf([state.value for state in ReplicaState]))
    retriedCount = fields.Integer(required=True)
    startAt = nullable_time()
    finishedAt = nullable_time()
    containerID = fields.String(required=True)
    containerHostIP = fields.String(required=True)
    exitCode = fields.Integer(required=True, allow_none=True)
    exitDiagnostics = fields.String(required=True)
    output = fields.String(metadata={"description": "What it left in `/output`, if it did."})
    outputProblem = fields.String(metadata={"description": "Why what it left there is not shown."})
    metricsProblem = fields.String(metadata={"description": "Why what it left in `/metric.json` is not kept."})


class ResourcePart(Schema):
    """What a replica's main container asks for."""

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


class TrailItem(Schema):
    """One asking of a plugin, or one resume."""

    stage = fields.String(required=True)
    plugin = fields.String(required=True, metadata={"description": "The plugin's key."})
    asking = fields.Integer(required=True, metadata={"description": "How often this plugin was asked anew, from 1."})
    attempts = fields.Integer(required=True)
    startedAt = nullable_time()
    durationMs = fields.Integer(required=True)
    outcome = fields.String(required=True)
    decision = fields.String(required=True)
    reason = fields.String(required=True)
    factors = fields.Raw(required=True, allow_none=True)
    patch = fields.Raw(required=True, allow_none=True, metadata={"description": "The change made, as RFC 6902."})
    actor = fields.String(required=True, metadata={"description": "Who resumed."})


class EventDelivery(Schema):
    """How the delivery of an event to one subscriber stands."""

    id = fields.String(required=True)
    plugin = fields.String(required=True)
    status = fields.String(required=True)
    attempts = fields.Integer(required=True)
    lastAnswer = fields.String(required=True)
    nextAt = nullable_time()
    finishedAt = nullable_time()


class EventItem(Schema):
    """One change of the job's state."""

    sequence = fields.Integer(required=True)
    state = fields.String(required=True, validate=STATE)
    previousState = fields.String(required=True)
    reason = fields.String(required=True)
    actor = fields.String(required=True)
    occurredAt = nullable_time()
    deliveries = fields.List(fields.Nested(EventDelivery), required=True)
