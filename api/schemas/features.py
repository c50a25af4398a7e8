"""Forms of features, plugins and deliveries."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schemas.fields import BodySchema, Pages, Query, comma_list, nullable_time
from pipeline_core.database.models import DeliveryStatus
from pipeline_core.plugins.guard import AttemptOutcome, Circuit
from pipeline_core.plugins.types import FailurePolicy, PluginType
from pipeline_core.selectors.expression import NAME
from pipeline_core.selectors.selector import MAX_CONDITIONS
from pipeline_core.states import ALIASES

TYPE = validate.OneOf([kind.value for kind in PluginType])
POLICY = validate.OneOf([policy.value for policy in FailurePolicy])
STATUSES = [status.value for status in DeliveryStatus]


class SelectorCondition(Schema):
    """One test of the job's header."""

    name = fields.String(required=True, metadata={"pattern": f"^{NAME.pattern}$"})
    key = fields.String(required=True, validate=validate.Length(min=1))
    expect = fields.String(
        required=True,
        validate=validate.Length(min=1),
        metadata={"description": "A text, a regular expression, or `/re/flags`."},
    )


class StageSelector(Schema):
    """Which jobs."""

    conditions = fields.List(
        fields.Nested(SelectorCondition), validate=validate.Length(max=MAX_CONDITIONS), allow_none=True
    )
    expression = fields.String(
        allow_none=True,
        metadata={
            "description": "Names of conditions, `&&`, `||`, `!`, `( )`; `*` for all.",
            "example": "type && !user",
        },
    )


class HookSelector(StageSelector):
    """Which jobs, and which of their states."""

    states = fields.List(
        fields.String(metadata={"pattern": rf"^(\*|{'|'.join(ALIASES)})$"}),
        validate=validate.Length(min=1),
        allow_none=True,
        metadata={"description": '`["*"]` for all; names in any case.'},
    )


class Selector(StageSelector):
    """A selector as it was given; a LifeHook's has `states`."""

    states = fields.List(fields.String(), allow_none=True)


class PluginBody(BodySchema):
    """A plugin of the feature."""

    pluginType = fields.String(required=True, validate=TYPE)
    callAddress = fields.String(
        required=True, metadata={"format": "uri", "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s\\#]+$"}
    )
    description = fields.String(allow_none=True)
    jobSelector = fields.Nested(
        HookSelector, allow_none=True, metadata={"description": "Only a LifeHook's has `states`."}
    )
    timeoutSeconds = fields.Integer(
        strict=True, validate=validate.Range(1, 300), metadata={"default": 30}, allow_none=True
    )
    maxAttempts = fields.Integer(strict=True, validate=validate.Range(1, 10), metadata={"default": 3}, allow_none=True)
    patienceSeconds = fields.Integer(
        strict=True, validate=validate.Range(0, 86400), metadata={"default": 60}, allow_none=True
    )
    failurePolicy = fields.String(
        validate=POLICY, metadata={"default": "Fail", "description": "A translator cannot be ignored."}, allow_none=True
    )


class FeatureBody(BodySchema):
    """A feature with its plugins."""

    name = fields.String(required=True, validate=validate.Regexp(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"))
    author = fields.String(
        required=True,
        validate=validate.Length(1, 63),
        metadata={
            "pattern": r"^[^\s/\x00-\x1f\x7f-\x9f]([^/\x00-\x1f\x7f-\x9f]*[^\s/\x00-\x1f\x7f-\x9f])?$",
            "description": "Not `all`.",
        },
    )
    description = fields.String(allow_none=True)
    enabled = fields.Boolean(metadata={"default": False}, allow_none=True)
    authorization = fields.String(
        metadata={
            "pattern": "^([!-~]([ -~]*[!-~])?)?$",
            "description": "Sent to the plugins as `Authorization`; never shown. `set` keeps the one that is stored.",
        },
        allow_none=True,
    )
    signingSecret = fields.String(
        metadata={"description": "For Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes; never shown."},
        allow_none=True,
    )
    jobSelector = fields.Nested(StageSelector, allow_none=True)
    plugins = fields.List(fields.Nested(PluginBody), required=True, validate=validate.Length(min=1))


class SequenceBody(BodySchema):
    """Which plugin is to run before which."""

    beforeKey = fields.String(required=True, validate=validate.Length(min=1))
    afterKey = fields.String(required=True, validate=validate.Length(min=1))
    pluginType = fields.String(required=True, validate=TYPE)


class PluginItem(Schema):
    """A registered plugin."""

    class Meta:
        unknown = "include"

    key = fields.String(required=True)
    feature = fields.String(required=True)
    pluginType = fields.String(required=True, validate=TYPE)
    callAddress = fields.String(required=True)
    description = fields.String(required=True)
    jobSelector = fields.Nested(Selector, required=True, allow_none=True, metadata={"description": "As given."})
    effectiveJobSelector = fields.Nested(Selector, required=True, metadata={"description": "With the feature's."})
    sequence = fields.Integer(required=True, metadata={"description": "From 1 within its type."})
    enabled = fields.Boolean(required=True)
    timeoutSeconds = fields.Integer(required=True)
    maxAttempts = fields.Integer(required=True)
    patienceSeconds = fields.Integer(required=True)
    failurePolicy = fields.String(required=True, validate=POLICY)


class PluginCall(Schema):
    """How one call ended."""

    at = nullable_time()
    outcome = fields.String(required=True, validate=validate.OneOf([outcome.value for outcome in AttemptOutcome]))
    durationMs = fields.Integer(required=True)


class PluginHealth(Schema):
    """How a plugin fares, as all workers know it."""

    circuit = fields.String(required=True, validate=validate.OneOf([circuit.value for circuit in Circuit]))
    callsUnderWay = fields.Integer(required=True)
    failuresInARow = fields.Integer(required=True)
    cause = fields.String(required=True, metadata={"description": "Of the last failure."})
    latencyMs = fields.Integer(required=True, allow_none=True, metadata={"description": "The mean of those answered."})
    recent = fields.List(fields.Nested(PluginCall), required=True, metadata={"description": "The latest first."})


class PluginDetail(PluginItem):
    """A registered plugin and how it fares."""

    health = fields.Nested(
        PluginHealth, required=True, allow_none=True, metadata={"description": "Null while Redis is away."}
    )


class FeatureItem(Schema):
    """A registered feature."""

    name = fields.String(required=True)
    author = fields.String(required=True)
    owner = fields.String(required=True)
    description = fields.String(required=True)
    enabled = fields.Boolean(required=True)
    authorization = fields.String(required=True, validate=validate.OneOf(["", "set"]))
    signingSecret = fields.String(required=True, validate=validate.OneOf(["", "set"]))
    jobSelector = fields.Nested(Selector, required=True, allow_none=True)
    plugins = fields.List(fields.Nested(PluginItem), required=True)
    createdAt = nullable_time()
    updatedAt = nullable_time()


class DeliveryList(Pages):
    """Which deliveries."""

    plugin = fields.String(validate=validate.Length(1, 255), metadata={"description": "A plugin's key."})
    status = fields.String(
        validate=validate.Length(min=1),
        metadata={"pattern": comma_list(STATUSES), "description": "Statuses, separated by commas; any case."},
    )
    jobID = fields.String(validate=validate.Length(1, 64))
    runID = fields.String(validate=validate.Length(1, 64), metadata={"description": "The run of which alerts tell."})


class RedeliverQuery(Query):
    """Whose deliveries."""

    plugin = fields.String(required=True, validate=validate.Length(1, 255), metadata={"description": "A plugin's key."})


class Redelivered(Schema):
    """How many deliveries will be sent again."""

    count = fields.Integer(required=True)


class DeliveryItem(Schema):
    """One event on its way to one subscriber."""

    id = fields.String(required=True, metadata={"description": "The `webhook-id`, the same on every attempt."})
    jobID = fields.String(required=True, allow_none=True)
    runID = fields.String(
        required=True, allow_none=True, metadata={"description": "In place of a job: the run of which an alert tells."}
    )
    sequence = fields.Integer(required=True, metadata={"description": "Of the event within its job, or its run."})
    state = fields.String(required=True)
    plugin = fields.String(required=True)
    status = fields.String(required=True, validate=validate.OneOf(STATUSES))
    attempts = fields.Integer(required=True)
    lastAnswer = fields.String(required=True)
    createdAt = nullable_time()
    nextAt = nullable_time()
    finishedAt = nullable_time()
    worker = fields.String(allow_none=True)
