"""Schemas of flows and templates.

Import documents are documents of their own: parsers in `pipeline_core.flows.definition` check and read them, and the
schemas here only describe them.
"""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from api.schemas.fields import CommaSeparated, DocumentSchema, Query, WholeNumber, nullable_time
from pipeline_core.flows.definition.flow import MAX_TASKS
from pipeline_core.flows.notation.names import NAME

_NAME = {"pattern": f"^{NAME.pattern}$"}


def _text(description: str = "", **metadata: Any) -> fields.String:
    return fields.String(allow_none=True, metadata={"description": description, **metadata})


def _count(description: str, least: int = 0) -> fields.Raw:
    forms = [
        {"type": "integer", "minimum": least, "maximum": 10**9 - 1},
        {"type": "string", "pattern": r"^(\s*[0-9]{1,9}\s*)?$"},
        {"type": "null"},
    ]
    return fields.Raw(metadata={"anyOf": forms, "description": description})


def _flag(description: str) -> fields.Raw:
    forms = [
        {"type": "boolean"},
        {"type": "integer", "minimum": 0, "maximum": 1},
        {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[01])?$"},
        {"type": "null"},
    ]
    return fields.Raw(metadata={"anyOf": forms, "description": description})


def _amount(description: str) -> fields.Raw:
    forms = [{"type": "string"}, {"type": "number"}, {"type": "null"}]
    return fields.Raw(metadata={"anyOf": forms, "description": description})


def _object_or_none(description: str) -> fields.Raw:
    forms = [{"type": "object"}, {"type": "string", "maxLength": 0}, {"type": "null"}]
    return fields.Raw(metadata={"anyOf": forms, "description": description})


class FlowPipeline(DocumentSchema):
    """A flow without its tasks. Numbers, and true and false, may be given as texts."""

    name = fields.String(required=True, metadata=_NAME)
    describe = _text()
    project = _text("One of the projects that are configured; `public` by default.")
    parameter = fields.Raw(metadata={"description": "Kept as it is."})
    expand = fields.Raw(metadata={"description": "The drawing; kept as it is."})
    dag_json = _object_or_none('For each task `{"upstream": [tasks]}`; those that are not named are roots.')
    global_env = _text("A line `NAME=value` for each variable.")
    schedule_type = _text("`once` or `crontab`.", pattern="^(once|crontab)?$")
    cron_time = _text("`minute hour day month weekday`, or a name such as `@daily`.")
    timezone = _text("Of the schedule and of dates; `UTC` by default.")
    cronjob_start_time = _text("Missed points are run from here: `2026-03-01 00:00:00`.")
    depends_on_past = _flag("Whether a scheduled run waits until the one before has succeeded.")
    catchup = _flag("Whether points that were missed are run later.")
    failFast = _flag("Whether no more tasks start after a failure.")
    parallelism = _count("Tasks of a run at a time.", 1)
    max_active_runs = _count("Scheduled runs at a time.", 1)
    max_manual_runs = _count("Other runs at a time.", 1)
    expired_limit = _count("How many of the newest scheduled runs stay; older ones are ended; 0: all.")
    alert_status = _text("States that send an alert, separated by commas.")
    alert_user = _text("Users named in alerts, separated by commas.")


class FlowTask(DocumentSchema):
    """A task; its template is named by one of the two spellings."""

    job_templete = _text("The template.")
    job_template = _text("The template, in the correct spelling; exports have `job_templete`.")
    name = fields.String(required=True, metadata=_NAME)
    label = _text()
    args = fields.Dict(allow_none=True, metadata={"description": "The template's arguments."})
    env = _text("A line `NAME=value` for each variable of this task.")
    command = _text("A script, in place of the template's command.")
    working_dir = _text()
    volume_mount = _text("`name(kind):/path`, separated by `,` or `;`.")
    node_selector = _text("`key=value`, separated by `,` or `;`.")
    resource_cpu = _amount("`2`, `0.5`, or request and limit: `2~4`.")
    resource_memory = _amount("`2G`, `500M`, or request and limit: `2G~4G`.")
    resource_gpu = _amount("`1`, `1(V100)`, `1(npu,910B)`, `0.1(T4)`, `-1`.")
    resource_rdma = _amount("A number of devices.")
    retry = _count("Attempts after the first.")
    timeout = _count("Seconds that an attempt may take; 0: no limit.")
    skip = _flag("Whether it is skipped, and counts as done.")


class FlowEntry(DocumentSchema):
    """A flow: one entry of an import document."""

    pipeline = fields.Nested(FlowPipeline, required=True)
    tasks = fields.List(fields.Nested(FlowTask), required=True, validate=validate.Length(min=1))


_ENTRIES = {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/FlowEntry"}}
DOCUMENT = {**_ENTRIES, "minProperties": 1}
EXPORT = _ENTRIES


CHECKED = {"type": "object", "description": "What is meant to be a `FlowEntry`: what is wrong with it is answered."}


class FlowSummary(Schema):
    """A flow as lists show it."""

    name = fields.String(required=True)
    describe = fields.String(required=True)
    project = fields.String(required=True)
    creator = fields.String(required=True)
    tasks = fields.Integer(required=True, metadata={"description": "How many it has."})
    schedule = fields.String(required=True, allow_none=True, metadata={"description": "Its `cron_time`."})
    timezone = fields.String(required=True)
    paused = fields.Boolean(required=True)
    nextAt = nullable_time()
    fault = fields.String(
        required=True, metadata={"description": "Why its schedule can make no run; empty when it can."}
    )
    createdAt = nullable_time()
    updatedAt = nullable_time()


class FlowName(Schema):
    """Which flow was created."""

    name = fields.String(required=True)


class FlowNames(Schema):
    """Which flows were imported, and which of them have a schedule that was paused by that."""

    flows = fields.List(fields.String(), required=True)
    paused = fields.List(fields.String())


class Export(Query):
    """Which flows."""

    names = CommaSeparated(
        metadata={"description": "Flows, separated by commas, in this order; all by name by default."}
    )


class TemplateNames(Schema):
    """Which templates were imported."""

    templates = fields.List(fields.String(), required=True)


class TemplateForm(DocumentSchema):
    """A template of tasks."""

    job_template_name = fields.String(required=True, metadata={"description": "Agrees with its key."})
    job_template_describe = fields.Raw(metadata={"description": "Kept as it is."})
    job_template_old_names = fields.Raw(metadata={"description": "Kept as it is."})
    job_template_version = fields.Raw(metadata={"description": "Kept as it is."})
    job_template_demo = fields.Raw(metadata={"description": "Kept as it is."})
    project_name = fields.Raw(metadata={"description": "Kept as it is."})
    gitpath = fields.Raw(metadata={"description": "Kept as it is."})
    image_describe = fields.Raw(metadata={"description": "Kept as it is."})
    image_name = _text("Required where no argument names the image.")
    job_template_command = _text("The entrypoint, split as a shell would.")
    job_template_workdir = _text()
    job_template_volume = _text("What is mounted, as in `volume_mount`.")
    job_template_account = _text("The pods' service account.")
    job_template_privileged = fields.Boolean(allow_none=True)
    job_template_env = _text("A line `NAME=value` for each variable.")
    job_template_expand = fields.Raw(metadata={"description": "An object; kept as it is. `HostNetwork: true` counts."})
    job_template_args = _object_or_none("Groups of arguments by name, in the order of the command line.")


ALL_TEMPLATES = {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/TemplateForm"}}
TEMPLATES = {**ALL_TEMPLATES, "minProperties": 1}


class LayoutQuery(Query):
    """How much is drawn."""

    most = WholeNumber(
        1,
        MAX_TASKS,
        load_default=500,
        metadata={"description": "About so many nodes at most: of more tasks some are drawn as groups."},
    )


class LayoutNode(Schema):
    """A task, or a group of tasks that are drawn as one."""

    name = fields.String(required=True, metadata={"description": "The task's name, or the name of the group."})
    label = fields.String(required=True)
    tasks = fields.List(fields.String(), required=True, metadata={"description": "The tasks of a group; else empty."})


class FlowLayout(Schema):
    """Where the tasks of a DAG are drawn: each in a layer below those of the tasks that it depends on."""

    layers = fields.List(
        fields.List(fields.Nested(LayoutNode)),
        required=True,
        metadata={"description": "From above, each in an order in which few edges cross."},
    )
    edges = fields.List(
        fields.List(fields.String(), validate=validate.Length(equal=2)),
        required=True,
        metadata={"description": "Pairs of a node and one that depends on it, by name."},
    )
    tasks = fields.Integer(required=True, metadata={"description": "How many tasks there are in all."})


class FlowCheck(Schema):
    """Whether a flow can be stored, and what is wrong with it."""

    valid = fields.Boolean(required=True)
    errors = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.String()),
        required=True,
        metadata={"description": "Path of a field → what is wrong with it; the first hundred."},
    )
    layout = fields.Nested(
        FlowLayout,
        required=True,
        allow_none=True,
        metadata={"description": "Null where the tasks and their order cannot be read."},
    )
