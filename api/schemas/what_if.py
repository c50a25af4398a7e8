"""Schemas of what-if: which stored jobs a feature would take part in."""

from __future__ import annotations

from marshmallow import Schema, fields

from api.schemas.features import TYPE, Selector
from api.schemas.fields import Query, UnixSeconds
from api.schemas.plan import SelectorPart
from pipeline_core.jobs.what_if import EXAMPLES, MOST_GROUPS, MOST_JOBS


class WhatIfQuery(Query):
    """Which jobs."""

    startAt = UnixSeconds(metadata={"description": "Submitted at this unix second or later."})
    endAt = UnixSeconds(metadata={"description": "Submitted at this unix second or before."})
    jobID = fields.String(metadata={"description": "A job whose conditions are explained, in the span of time or not."})


class JobChange(Schema):
    """How many jobs."""

    matched = fields.Integer(required=True, metadata={"description": "The feature as given takes part in them."})
    gained = fields.Integer(
        required=True, metadata={"description": "Of these, those that the registered one does not match."}
    )
    lost = fields.Integer(required=True, metadata={"description": "Those that only the registered one matches."})


class DayChange(JobChange):
    """The jobs submitted on one day."""

    day = fields.Date(required=True, metadata={"description": "In UTC."})


class KindChange(JobChange):
    """The jobs of one kind."""

    kind = fields.String(required=True)


class UserChange(JobChange):
    """The jobs of one user."""

    userID = fields.String(required=True)


class PluginWhatIf(JobChange):
    """The jobs of one plugin of the feature."""

    pluginType = fields.String(required=True, validate=TYPE)
    registered = fields.Boolean(
        required=True, metadata={"description": "Whether the registered feature has one of this type."}
    )
    removed = fields.Boolean(
        required=True, metadata={"description": "Whether the feature as given has none of this type."}
    )
    effectiveJobSelector = fields.Nested(
        Selector,
        required=True,
        allow_none=True,
        metadata={"description": "With the feature's; null when it is removed."},
    )
    byDay = fields.List(fields.Nested(DayChange), required=True)
    byKind = fields.List(
        fields.Nested(KindChange), required=True, metadata={"description": f"The {MOST_GROUPS} with the most jobs."}
    )
    byUser = fields.List(
        fields.Nested(UserChange), required=True, metadata={"description": f"The {MOST_GROUPS} with the most jobs."}
    )
    gainedJobs = fields.List(
        fields.String(), required=True, metadata={"description": f"IDs of at most {EXAMPLES}, the latest first."}
    )
    lostJobs = fields.List(
        fields.String(), required=True, metadata={"description": f"IDs of at most {EXAMPLES}, the latest first."}
    )
    explanation = fields.Nested(
        SelectorPart, required=True, allow_none=True, metadata={"description": "For the job `jobID`; null without one."}
    )


class FeatureWhatIf(Schema):
    """The jobs that a feature would take part in."""

    jobs = fields.Integer(required=True, metadata={"description": "How many jobs were looked at."})
    complete = fields.Boolean(
        required=True,
        metadata={"description": f"False: there are more than {MOST_JOBS}, and the latest were looked at."},
    )
    plugins = fields.List(fields.Nested(PluginWhatIf), required=True)
