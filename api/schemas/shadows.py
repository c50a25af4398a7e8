"""Schemas of what shadows answered, and of promotions."""

from __future__ import annotations

from marshmallow import Schema, fields

from api.schemas.features import MODE, PluginItem
from api.schemas.fields import Query, UnixSeconds, WholeNumber, nullable_time
from api.schemas.jobs import PluginAnswer


class ShadowReportQuery(Query):
    """Since when, and how much is shown."""

    since = UnixSeconds(metadata={"description": "Only answers of this unix second or later."})
    most = WholeNumber(
        1,
        500,
        load_default=20,
        metadata={"description": "So many disagreements at most, and as many errors; the latest."},
    )


class ShadowPair(Schema):
    """What a shadow answered about a job's stage, and what was decided."""

    jobID = fields.String(required=True)
    stage = fields.String(required=True)
    at = nullable_time()
    shadow = fields.Nested(PluginAnswer, required=True)
    decided = fields.Nested(PluginAnswer, required=True, allow_none=True)


class ShadowLatency(Schema):
    """How long calls took, from the first attempt to the answer."""

    meanMs = fields.Integer(required=True)
    medianMs = fields.Integer(required=True)
    p95Ms = fields.Integer(required=True)


class ShadowLatencies(Schema):
    """How long both took, in the calls of which both answers are known."""

    shadow = fields.Nested(ShadowLatency, required=True, allow_none=True)
    decided = fields.Nested(ShadowLatency, required=True, allow_none=True)


class ShadowReport(Schema):
    """What a plugin answered as a shadow, beside what was decided."""

    key = fields.String(required=True)
    mode = fields.String(required=True, validate=MODE, metadata={"description": "As it is now."})
    shadowOf = fields.String(required=True, allow_none=True)
    answers = fields.Integer(required=True, metadata={"description": "How often it was asked."})
    agreed = fields.Integer(required=True)
    disagreed = fields.Integer(required=True)
    errors = fields.Integer(required=True, metadata={"description": "How often it gave no usable answer."})
    dropped = fields.Integer(
        required=True,
        allow_none=True,
        metadata={
            "description": "How often it was not asked, since too many questions waited or it was unavailable; of all jobs, "
            "since the totals in Redis began. Null while Redis is unavailable, and for an `ownOnly` token."
        },
    )
    notCompared = fields.Integer(
        required=True, metadata={"description": "It answered, and there was no decision to compare that with."}
    )
    latency = fields.Nested(ShadowLatencies, required=True)
    disagreements = fields.List(fields.Nested(ShadowPair), required=True, metadata={"description": "The latest first."})
    lastErrors = fields.List(fields.Nested(ShadowPair), required=True, metadata={"description": "The latest first."})


class Promotion(Schema):
    """The two plugins after they have changed their places."""

    promoted = fields.Nested(PluginItem, required=True)
    replaced = fields.Nested(PluginItem, required=True)
