"""Forms of a job's plan."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schemas.jobs import STATE
from pipeline_core.stages.stage import STAGES


class ConditionPart(Schema):
    """A condition of a selector, and what came of it."""

    name = fields.String(required=True)
    key = fields.String(required=True)
    expect = fields.String(
        required=True, allow_none=True, metadata={"description": "Null for a preset: it is not to be empty."}
    )
    found = fields.String(required=True, metadata={"description": "The text under the key; empty when there is none."})
    matched = fields.Boolean(required=True)


class SelectorPart(Schema):
    """Why a selector matches or not."""

    expression = fields.String(required=True, metadata={"description": "Empty: it matches all."})
    conditions = fields.List(fields.Nested(ConditionPart), required=True)
    matched = fields.Boolean(required=True)


class PlannedPlugin(Schema):
    """A plugin, and whether the job would meet it."""

    key = fields.String(required=True)
    feature = fields.String(required=True)
    enabled = fields.Boolean(required=True, metadata={"description": "Whether its feature is on."})
    sequence = fields.Integer(required=True, metadata={"description": "From 1 within its type."})
    runs = fields.Boolean(required=True, metadata={"description": "Whether it would be asked, or told."})
    reason = fields.String(required=True, metadata={"description": "Why not; empty when it runs."})
    selector = fields.Nested(SelectorPart, required=True)


class PlannedHook(PlannedPlugin):
    """A LifeHook, and what it would be told of."""

    states = fields.List(fields.String(validate=STATE), required=True)


class PlannedStage(Schema):
    """A stage and the plugins of its type, in running order."""

    stage = fields.String(required=True, validate=validate.OneOf([stage.value for stage in STAGES]))
    pluginType = fields.String(
        required=True, allow_none=True, metadata={"description": "Null for the launch, which asks no plugin."}
    )
    reached = fields.Boolean(
        required=True, metadata={"description": "Whether it has its turn, as long as plugins let the job pass."}
    )
    fails = fields.Boolean(required=True, metadata={"description": "Whether the job would fail here."})
    outcome = fields.String(required=True, metadata={"description": "What the stage would do, as a sentence."})
    plugins = fields.List(fields.Nested(PlannedPlugin), required=True)


class StandIn(Schema):
    """What the plan had to assume."""

    jobID = fields.String(required=True)
    note = fields.String(required=True)


class JobPlan(Schema):
    """The way that a job would go."""

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
