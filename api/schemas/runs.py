"""Schemas of runs of flows."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.paging import MAX_NUMBER
from api.schemas.bodies import ChoiceField, Object
from api.schemas.fields import CommaSeparated, Flag, Pages, Query, Timestamp, WholeNumber, nullable_time
from api.schemas.jobs import STATE as JOB_STATE
from api.schemas.jobs import Reason
from pipeline_core.flows.definition.flow import MAX_TASKS
from pipeline_core.flows.runs.control import MARKS
from pipeline_core.flows.states import RunState, TaskState, Trigger

MAX_GRID_RUNS, MAX_GRID_TASKS = 100, 500
STATE = validate.OneOf([state.value for state in RunState])


class RunBody(Reason):
    """What a run is started with."""

    variables = Object(
        "an object of values by name", metadata={"description": "Values for names of `global_env`: texts or numbers."}
    )


class Mark(Reason):
    """The state that a task is marked with."""

    mark = ChoiceField({state.value: state for state in MARKS}, required=True)


class RunStarted(Schema):
    """The run's ID."""

    runID = fields.String(required=True, metadata={"example": "r01kb5gqz5sk4q7r3f0m7h2k9xz"})


class RunFilters(Pages):
    """Which runs, and which page of them."""

    state = CommaSeparated(tuple(RunState), metadata={"description": "States, separated by commas."})
    trigger = CommaSeparated(tuple(Trigger), metadata={"description": "Triggers, separated by commas."})


class RunList(RunFilters):
    """Which runs of all flows, and which page of them."""

    flow = fields.String(
        validate=validate.Length(1, 64), metadata={"description": "A flow's name, in either spelling."}
    )


class RunLogQuery(Query):
    """Which lines."""

    task = fields.String(validate=validate.Length(1, 64), metadata={"description": "A task, in either spelling."})
    attempt = WholeNumber(1, 10**6, metadata={"description": "Attempt of each task, from 1; by default the last."})
    tail = WholeNumber(0, 10**9, metadata={"description": "Only so many lines from the end."})
    since = Timestamp(metadata={"description": "Lines from then on: RFC 3339, or unix seconds."})
    follow = Flag(load_default=False, metadata={"description": "Stream until the run has ended."})


class RunSummary(Schema):
    """A run as lists show it."""

    id = fields.String(required=True)
    flow = fields.String(required=True)
    trigger = fields.String(required=True, validate=validate.OneOf([trigger.value for trigger in Trigger]))
    executionDate = nullable_time()
    state = fields.String(required=True, validate=STATE)
    reason = fields.String(required=True)
    blockedBy = fields.String(required=True, allow_none=True, metadata={"description": "The run that it waits for."})
    runner = fields.String(required=True)
    createdAt = nullable_time()
    startAt = nullable_time()
    finishedAt = nullable_time()


class Usage(Schema):
    """The total usage of a task's replicas."""

    cpuCores = fields.Float(required=True)
    memoryBytes = fields.Integer(required=True)


class RunTask(Schema):
    """A task of a run."""

    name = fields.String(required=True)
    label = fields.String(required=True)
    state = fields.String(required=True, validate=validate.OneOf([state.value for state in TaskState]))
    reason = fields.String(required=True)
    jobID = fields.String(required=True, allow_none=True, metadata={"description": "Of the last attempt."})
    attempt = fields.Integer(required=True, metadata={"description": "Attempts so far."})
    startAt = nullable_time()
    finishedAt = nullable_time()
    output = fields.String(required=True, allow_none=True)
    usage = fields.Nested(
        Usage,
        required=True,
        allow_none=True,
        metadata={"description": "While it runs, if the cluster reports usage; for the first 20 running tasks."},
    )


class TaskTry(Schema):
    """An attempt of a task, and how its job stands."""

    attempt = fields.Integer(required=True, metadata={"description": "From 1."})
    jobID = fields.String(required=True, allow_none=True, metadata={"description": "Null until it is submitted."})
    state = fields.String(
        required=True, allow_none=True, validate=JOB_STATE, metadata={"description": "The job's; null without one."}
    )
    reason = fields.String(required=True)
    startAt = nullable_time()
    finishedAt = nullable_time()


class TaskOfRun(RunTask):
    """A task of a run, with what it depends on and all its attempts."""

    upstream = fields.List(fields.String(), required=True, metadata={"description": "Names, as when the run began."})
    attempts = fields.List(fields.Nested(TaskTry), required=True, metadata={"description": "The oldest first."})


class RunDetail(RunSummary):
    """A run with its tasks."""

    tasks = fields.List(fields.Nested(TaskOfRun), required=True)
    variables = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        required=True,
        metadata={"description": "The values of `global_env`, by name, that all its tasks share."},
    )


class Cell(Schema):
    """A task in a run."""

    state = fields.String(required=True, validate=validate.OneOf([state.value for state in TaskState]))
    attempt = fields.Integer(required=True)
    jobID = fields.String(required=True, allow_none=True, metadata={"description": "Of the last attempt."})
    startAt = nullable_time()
    finishedAt = nullable_time()


class GridRun(RunSummary):
    """A run, and its tasks in the order of the grid's."""

    tasks = fields.List(
        fields.Nested(Cell, allow_none=True),
        required=True,
        metadata={"description": "Null for a task that the run does not have."},
    )


class Grid(Schema):
    """The runs of a flow, and the states of its tasks in them."""

    tasks = fields.List(fields.String(), required=True, metadata={"description": "Names, in the order of the DAG."})
    taskCount = fields.Integer(required=True, metadata={"description": "How many tasks the flow has in all."})
    runs = fields.List(fields.Nested(GridRun), required=True, metadata={"description": "The newest first."})


class GridQuery(Query):
    """Which runs, and which tasks."""

    pageNumber = WholeNumber(1, MAX_NUMBER, load_default=1)
    pageSize = WholeNumber(1, MAX_GRID_RUNS, load_default=25, metadata={"description": "Runs of a page."})
    taskOffset = WholeNumber(0, MAX_TASKS, load_default=0, metadata={"description": "The first task, from 0."})
    taskLimit = WholeNumber(1, MAX_GRID_TASKS, load_default=200, metadata={"description": "At most so many tasks."})


METRICS = {
    "type": "object",
    "additionalProperties": {"type": "array", "items": {"type": "object"}},
    "description": "By task, the metrics in its `/metric.json`.",
}
