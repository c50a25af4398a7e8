"""Schemas of packets: what plugins were sent for a job, and what they answered."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schemas.fields import Query
from api.schemas.jobs import JobConditions
from pipeline_core.jobs.packets import STAGES
from pipeline_core.jobs.past_packets import LOOKED_AT, MOST_JOBS
from pipeline_core.stages.outcomes import TrailOutcome


def _stage() -> fields.String:
    return fields.String(
        required=True,
        validate=validate.OneOf([*map(str, STAGES)], error="It must be one of: {choices}."),
        metadata={"description": "The stage whose plugins are sent the packet."},
    )


class PacketOf(Query):
    """Whose packet."""

    stage = _stage()


class PastPacketsOf(JobConditions):
    """Whose packets."""

    stage = _stage()
    plugin = fields.String(
        load_default="", metadata={"description": "The key of a plugin: only what this one answered."}
    )
    cursor = fields.String(
        validate=validate.Regexp("^j[0-9a-z]{26}$", error="It must be the `cursor` of an earlier answer."),
        metadata={"description": "The `cursor` of the page before."},
    )


class PastAnswer(Schema):
    """What a plugin answered last, as the trail has it."""

    plugin = fields.String(required=True, metadata={"description": "Its key."})
    outcome = fields.String(
        required=True,
        validate=validate.OneOf([TrailOutcome.ANSWERED.value, TrailOutcome.REJECTED.value]),
        metadata={"description": "`rejected`: a translator said that the job is invalid."},
    )
    decision = fields.String(required=True, metadata={"description": "Of a gate."})
    reason = fields.String(required=True)
    factors = fields.List(fields.Dict(), required=True, allow_none=True, metadata={"description": "Of a generator."})
    patch = fields.List(
        fields.Dict(),
        required=True,
        allow_none=True,
        metadata={"description": "What it made of the packet's `job`, as a JSON Patch."},
    )


class PastPacket(Schema):
    """A job, with the packet that the plugins of the stage were sent, and what they answered."""

    jobID = fields.String(required=True)
    namespace = fields.String(required=True)
    packet = fields.Dict(
        required=True, allow_none=True, metadata={"description": "Null when it cannot be built again."}
    )
    answers = fields.List(fields.Nested(PastAnswer), required=True)
    problem = fields.String(required=True, metadata={"description": "Why there is no packet; empty when there is one."})


class PastPackets(Schema):
    """A page of jobs, the latest first."""

    jobs = fields.List(
        fields.Nested(PastPacket),
        required=True,
        metadata={
            "description": f"At most {MOST_JOBS}; fewer, also none, when they are large or few of {LOOKED_AT} jobs have some."
        },
    )
    cursor = fields.String(
        required=True, allow_none=True, metadata={"description": "For the next page; null on the last one."}
    )
