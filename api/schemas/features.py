"""Schemas of features, plugins and deliveries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from marshmallow import Schema, ValidationError, fields, post_load, validate, validates_schema

from api.schemas.bodies import (
    BodySchema,
    Boolean,
    ChoiceField,
    Items,
    Nested,
    Number,
    SelectorField,
    Text,
    TypeName,
    between,
    invalid_below,
    matching,
)
from api.schemas.fields import Pages, Query, comma_list, nullable_time
from api.schemas.jobs import EventDelivery
from pipeline_core import selectors
from pipeline_core.database.models import DeliveryStatus
from pipeline_core.errors import WrongParameter
from pipeline_core.features.definition import (
    EVERYONE,
    RESERVED_NAMES,
    SECRET_SET,
    FeatureDefinition,
    PluginDefinition,
    PluginOrder,
)
from pipeline_core.plugins.guard import AttemptOutcome, Circuit
from pipeline_core.plugins.network import check_address
from pipeline_core.plugins.packet import check_secret
from pipeline_core.plugins.types import FailurePolicy, Mode, PluginType, Resumer
from pipeline_core.selectors.expression import NAME
from pipeline_core.selectors.selector import MAX_CONDITIONS
from pipeline_core.settings import settings
from pipeline_core.states import ALIASES
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.texts import DISGUISE, PRINTABLE, shown

TYPE = validate.OneOf([kind.value for kind in PluginType])
MODE = validate.OneOf([mode.value for mode in Mode])
POLICY = validate.OneOf([policy.value for policy in FailurePolicy])
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_AUTHOR = re.compile(rf"[^\s/{DISGUISE}]([^/{DISGUISE}]*[^\s/{DISGUISE}])?")
STATUSES = [status.value for status in DeliveryStatus]


class SelectorCondition(Schema):
    """One condition on the job's header."""

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
    """A selector as it was submitted; a LifeHook's has `states`."""

    states = fields.List(fields.String(), allow_none=True)


def _address_error(text: str) -> str | None:
    return _error_text(check_address, text, settings().plugin_networks)


def _secret_error(text: str) -> str | None:
    return None if text == SECRET_SET else _error_text(check_secret, text)


def _error_text(check: Callable[..., None], *values: Any) -> str | None:
    """The message of the error that a check of the core raises; None when it raises none."""
    try:
        check(*values)
    except WrongParameter as error:
        return next(iter(error.errors.values()))[0]
    return None


def _reserved_error(text: str) -> str | None:
    return f'must be something else: "{EVERYONE}" stands for everyone' if text.casefold() == EVERYONE else None


def _name_error(text: str) -> str | None:
    if text in RESERVED_NAMES:
        return f"must be something else: /v1/features/{text} is the path of another call"
    return _reserved_error(text)


_HOOK_SHADOW = f"a {PluginType.LIFE_HOOK} cannot be a shadow: it decides nothing about jobs that could be compared"
_ACTIVE_SHADOW = f'only a plugin with the mode "{Mode.SHADOW}" is a shadow of another'


class PluginBody(BodySchema):
    """A plugin of the feature."""

    echoed = frozenset({"feature", "enabled", "owner"})

    pluginType = TypeName(required=True)
    callAddress = Text(
        required=True,
        check=_address_error,
        metadata={"format": "uri", "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s\\#]+$"},
    )
    description = Text()
    jobSelector = SelectorField(
        HookSelector, with_states=True, metadata={"description": "Only a LifeHook's has `states`."}
    )
    timeoutSeconds = Number(1, 300, default=30)
    maxAttempts = Number(1, 10, default=3)
    patienceSeconds = Number(0, 86400, default=60)
    failurePolicy = ChoiceField(
        FailurePolicy, default=FailurePolicy.FAIL, metadata={"description": "A translator cannot be ignored."}
    )
    resume = ChoiceField(
        Resumer,
        default=Resumer.WRITER,
        metadata={
            "description": "Of an AccessGate: who resumes the jobs that it suspends. `writer`: whoever may write the job, its "
            "own user too; `approver`: somebody else, with the privilege `approve_job`."
        },
    )
    mode = ChoiceField(
        Mode,
        metadata={
            "description": "`shadow`: asked beside the jobs, and decides nothing. By default the feature's; not for a LifeHook."
        },
    )
    shadowOf = Text(metadata={"description": "Of a shadow: the key of the active plugin that it is to replace."})

    @validates_schema
    def _fits_its_type(self, data: Mapping[str, Any], **_: Any) -> None:
        type, (_raw, selector) = data["pluginType"], data["jobSelector"]
        if data["failurePolicy"] is FailurePolicy.IGNORE and type is PluginType.TEMPLATE_TRANSLATOR:
            text = f"a {type} cannot be ignored: there is no TaskSet without it"
            raise ValidationError({"failurePolicy": [text]})
        if data["resume"] is Resumer.APPROVER and type is not PluginType.ACCESS_GATE:
            raise ValidationError({"resume": ["only an AccessGate may leave that to approvers"]})
        if selector and selector.states is not None and type is not PluginType.LIFE_HOOK:
            raise ValidationError({"jobSelector": {"states": ["only the selector of a LifeHook has states"]}})
        if data["mode"] is Mode.SHADOW and type is PluginType.LIFE_HOOK:
            raise ValidationError({"mode": [_HOOK_SHADOW]})
        if data["mode"] is Mode.ACTIVE and data["shadowOf"]:
            raise ValidationError({"shadowOf": [_ACTIVE_SHADOW]})


class FeatureBody(BodySchema):
    """A feature with its plugins."""

    echoed = frozenset({"owner"})

    name = Text(
        required=True,
        validate=matching(_NAME, "must be 1 to 63 letters, digits, - and _, first a letter or digit (A-Z, a-z, 0-9)"),
        check=_name_error,
    )
    author = Text(
        required=True,
        validate=[
            between(1, 63),
            matching(_AUTHOR, "must have no /, no control or direction characters and no white space around it"),
        ],
        check=_reserved_error,
        metadata={"description": "Not `all`."},
    )
    jobSelector = SelectorField(StageSelector)
    plugins = Items(Nested(PluginBody), required=True, validate=validate.Length(min=1))
    description = Text()
    enabled = Boolean(default=False)
    mode = ChoiceField(
        Mode,
        metadata={
            "description": "Of all its plugins that have no `mode` of their own; `active` if it is not given. It has to be given "
            "to let a plugin decide again that is a shadow now."
        },
    )
    authorization = Text(
        secret=True,
        validate=matching(
            re.compile(f"({PRINTABLE.pattern})?"),
            "must be printable ASCII without blanks around it: it is sent in a header",
        ),
        metadata={
            "description": "Sent to the plugins as `Authorization`; never shown. `set` keeps the one that is stored.",
        },
    )
    signingSecret = Text(
        secret=True,
        check=_secret_error,
        metadata={"description": "For Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes; never shown."},
    )

    @post_load
    def _definition(self, data: Mapping[str, Any], **_: Any) -> FeatureDefinition:
        raw, selector = data["jobSelector"]
        types = [plugin["pluginType"] for plugin in data["plugins"]]
        for index, type in enumerate(types):
            if type in types[:index]:
                text = f"a feature has at most one plugin of a type; this is another {type}"
                raise ValidationError({"plugins": {index: {"pluginType": [text]}}})
        for index, plugin in enumerate(data["plugins"]):
            if not plugin["mode"]:
                plugin["mode"] = data["mode"]
                if plugin["mode"] is Mode.SHADOW and plugin["pluginType"] is PluginType.LIFE_HOOK:
                    raise ValidationError({"plugins": {index: {"mode": [_HOOK_SHADOW]}}})
                if plugin["mode"] is not Mode.SHADOW and plugin["shadowOf"]:
                    raise ValidationError({"plugins": {index: {"shadowOf": [_ACTIVE_SHADOW]}}})
        effective = list(self._merged(selector, data["plugins"]))
        return FeatureDefinition(
            name=data["name"],
            author=data["author"],
            description=data["description"],
            enabled=data["enabled"],
            authorization=data["authorization"],
            signing_secret=data["signingSecret"],
            selector=raw,
            plugins=tuple(map(_plugin, data["plugins"], effective)),
        )

    def _merged(
        self, selector: selectors.Selector | None, plugins: Sequence[Mapping[str, Any]]
    ) -> Iterator[selectors.Selector]:
        """Each plugin's selector, merged with the feature's."""
        errors = ValidationErrors()
        for index, plugin in enumerate(plugins):
            try:
                yield selectors.merge(selector, plugin["jobSelector"][1], join_path("plugins", index, "jobSelector"))
            except WrongParameter as error:
                errors.adopt(error)
        if errors:
            raise invalid_below(errors.by_path)


def _plugin(data: Mapping[str, Any], effective: selectors.Selector) -> PluginDefinition:
    return PluginDefinition(
        type=data["pluginType"],
        address=data["callAddress"],
        description=data["description"],
        selector=data["jobSelector"][0],
        effective=effective,
        timeout_seconds=data["timeoutSeconds"],
        max_attempts=data["maxAttempts"],
        patience_seconds=data["patienceSeconds"],
        failure_policy=data["failurePolicy"],
        resumer=data["resume"],
        mode=data["mode"],
        shadow_of=data["shadowOf"],
    )


class SequenceBody(BodySchema):
    """Which plugin runs before which."""

    beforeKey = Text(required=True, validate=validate.Length(min=1))
    afterKey = Text(required=True, validate=validate.Length(min=1))
    pluginType = TypeName(required=True)

    @validates_schema
    def _two_plugins(self, data: Mapping[str, Any], **_: Any) -> None:
        if data["beforeKey"] == data["afterKey"]:
            text = f"must be another plugin than beforeKey, not {shown(data['afterKey'])} too"
            raise ValidationError({"afterKey": [text]})

    @post_load
    def _order(self, data: Mapping[str, Any], **_: Any) -> PluginOrder:
        return PluginOrder(before=data["beforeKey"], after=data["afterKey"], type=data["pluginType"])


class PluginItem(Schema):
    """A registered plugin."""

    class Meta:
        unknown = "include"

    key = fields.String(required=True)
    feature = fields.String(required=True)
    owner = fields.String(required=True, metadata={"description": "Who registered the feature: the token's `forwho`."})
    pluginType = fields.String(required=True, validate=TYPE)
    callAddress = fields.String(required=True)
    description = fields.String(required=True)
    jobSelector = fields.Nested(Selector, required=True, allow_none=True, metadata={"description": "As given."})
    effectiveJobSelector = fields.Nested(Selector, required=True, metadata={"description": "With the feature's."})
    mode = fields.String(required=True, validate=MODE)
    shadowOf = fields.String(
        required=True, allow_none=True, metadata={"description": "Of a shadow: the plugin that it is to replace."}
    )
    sequence = fields.Integer(
        required=True, metadata={"description": "From 1 within its type; shadows are counted by themselves."}
    )
    enabled = fields.Boolean(required=True)
    timeoutSeconds = fields.Integer(required=True)
    maxAttempts = fields.Integer(required=True)
    patienceSeconds = fields.Integer(required=True)
    failurePolicy = fields.String(required=True, validate=POLICY)
    resume = fields.String(
        validate=validate.OneOf([resumer.value for resumer in Resumer]), metadata={"description": "Of gates."}
    )


class PluginCall(Schema):
    """The outcome of one call."""

    at = nullable_time()
    outcome = fields.String(required=True, validate=validate.OneOf([outcome.value for outcome in AttemptOutcome]))
    durationMs = fields.Integer(required=True)


class PluginHealth(Schema):
    """A plugin's health, from the calls of all workers."""

    circuit = fields.String(required=True, validate=validate.OneOf([circuit.value for circuit in Circuit]))
    callsUnderWay = fields.Integer(required=True)
    failuresInARow = fields.Integer(required=True)
    cause = fields.String(required=True, metadata={"description": "Of the last failure."})
    latencyMs = fields.Integer(required=True, allow_none=True, metadata={"description": "The mean of those answered."})
    recent = fields.List(fields.Nested(PluginCall), required=True, metadata={"description": "The latest first."})


class PluginDetail(PluginItem):
    """A registered plugin and its health."""

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
    mode = fields.String(
        required=True, validate=MODE, metadata={"description": "`shadow` if all its plugins are shadows."}
    )
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
    runID = fields.String(validate=validate.Length(1, 64), metadata={"description": "The run that alerts are about."})


class RedeliverQuery(Query):
    """Whose deliveries."""

    plugin = fields.String(required=True, validate=validate.Length(1, 255), metadata={"description": "A plugin's key."})


class Redelivered(Schema):
    """How many deliveries will be sent again."""

    count = fields.Integer(required=True)


class DeliveryItem(EventDelivery):
    """One event on its way to one subscriber."""

    jobID = fields.String(required=True, allow_none=True)
    runID = fields.String(
        required=True, allow_none=True, metadata={"description": "In place of a job: the run that an alert is about."}
    )
    sequence = fields.Integer(required=True, metadata={"description": "Of the event within its job, or its run."})
    state = fields.String(required=True)
    createdAt = nullable_time()
    worker = fields.String(allow_none=True)
