"""Schemas of the explanation of a job: which plugins would be called for it."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schemas.fields import nullable_time
from api.schemas.jobs import STATE
from pipeline_core.stages.names import STAGES


class ConditionPart(Schema):
    """A condition of a selector, and whether it matched."""

    name = fields.String(required=True)
    key = fields.String(required=True)
    expect = fields.String(
        required=True, allow_none=True, metadata={"description": "Null for a preset, which has to be non-empty."}
    )
    found = fields.String(required=True, metadata={"description": "The text under the key; empty when there is none."})
    matched = fields.Boolean(required=True)


class SelectorPart(Schema):
    """Why a selector matches or not."""

    expression = fields.String(required=True, metadata={"description": "Empty: it matches all."})
    conditions = fields.List(fields.Nested(ConditionPart), required=True)
    matched = fields.Boolean(required=True)


class PlannedPlugin(Schema):
    """A plugin, and whether it would be called for the job."""

    key = fields.String(required=True)
    feature = fields.String(required=True)
    enabled = fields.Boolean(required=True, metadata={"description": "Whether its feature is on."})
    sequence = fields.Integer(required=True, metadata={"description": "From 1 within its type."})
    runs = fields.Boolean(required=True, metadata={"description": "Whether it would be called."})
    reason = fields.String(required=True, metadata={"description": "Why not; empty when it runs."})
    selector = fields.Nested(SelectorPart, required=True)


class PlannedHook(PlannedPlugin):
    """A LifeHook, and the states whose events it would be sent."""

    states = fields.List(fields.String(validate=STATE), required=True)


class PlannedStage(Schema):
    """A stage and the plugins of its type, in running order."""

    stage = fields.String(required=True, validate=validate.OneOf([stage.value for stage in STAGES]))
    pluginType = fields.String(
        required=True, allow_none=True, metadata={"description": "Null for the launch, which calls no plugin."}
    )
    reached = fields.Boolean(
        required=True, metadata={"description": "Whether the job would reach it, if no plugin stops it."}
    )
    fails = fields.Boolean(required=True, metadata={"description": "Whether the job would fail here."})
    outcome = fields.String(required=True, metadata={"description": "What the stage would do, as a sentence."})
    plugins = fields.List(fields.Nested(PlannedPlugin), required=True)


class StandIn(Schema):
    """An assumption of the plan."""

    jobID = fields.String(required=True)
    note = fields.String(required=True)


class JobPlan(Schema):
    """The stages that a job would pass, with their plugins."""

    namespace = fields.String(required=True)
    tasksetCheck = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf(["passed"]),
        metadata={"description": "Null for a job that is no TaskSet yet; one that does not pass is refused."},
    )
    header = fields.Dict(required=True, metadata={"description": "What selectors look at, presets included."})
    standIn = fields.Nested(StandIn, required=True)
    stages = fields.List(fields.Nested(PlannedStage), required=True)
    lifeHooks = fields.List(fields.Nested(PlannedHook), required=True)


class StageCall(Schema):
    """A plugin call of a stage, or a resume, that was made."""

    plugin = fields.String(required=True)
    asking = fields.Integer(required=True, metadata={"description": "Number of the call to this plugin, from 1."})
    attempts = fields.Integer(required=True)
    startedAt = nullable_time()
    durationMs = fields.Integer(required=True)
    outcome = fields.String(required=True)
    decision = fields.String(required=True)
    reason = fields.String(required=True)
    actor = fields.String(required=True, metadata={"description": "Who resumed."})


class StageOfJob(PlannedStage):
    """What a stage would do now, and what it did."""

    calls = fields.List(fields.Nested(StageCall), required=True, metadata={"description": "In order."})


class StoredJobPlan(JobPlan):
    """The stages that a stored job would pass if it were submitted now, and the calls that were made of its plugins."""

    jobID = fields.String(required=True)
    state = fields.String(required=True, validate=STATE)
    stage = fields.String(required=True)
    standIn = fields.Nested(StandIn, required=True, allow_none=True, metadata={"description": "Null."})
    stages = fields.List(fields.Nested(StageOfJob), required=True)
