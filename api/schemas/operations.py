"""Schemas of version, status and secrets."""

from __future__ import annotations

from typing import Any

from marshmallow import Schema, fields, validate

from pipeline_core.operations.status import StepCondition
from pipeline_core.plugins.guard import Circuit


class Version(Schema):
    """The version that is running."""

    version = fields.String(required=True)
    api = fields.String(required=True)


def _seconds(description: str, **options: Any) -> fields.Float:
    return fields.Float(required=True, metadata={"description": description}, **options)


class LiveJobs(Schema):
    """Jobs that have not ended."""

    state = fields.String(required=True)
    stage = fields.String(required=True)
    count = fields.Integer(required=True)


class StepGroup(Schema):
    """Steps of the same stage, condition and worker."""

    stage = fields.String(required=True)
    condition = fields.String(required=True, validate=validate.OneOf([*StepCondition]))
    worker = fields.String(required=True, metadata={"description": "The worker that holds them; empty when none does."})
    count = fields.Integer(required=True)
    oldestSeconds = _seconds("For how long the first of them has been due.")


class WaitingDeliveries(Schema):
    """Events that a subscriber has not acknowledged."""

    plugin = fields.String(required=True)
    count = fields.Integer(required=True)
    oldestSeconds = _seconds("Age of the oldest.")


class PluginCircuit(Schema):
    """The state of a plugin's circuit."""

    plugin = fields.String(required=True)
    circuit = fields.String(required=True, validate=validate.OneOf([*Circuit]))
    calls = fields.Integer(required=True, metadata={"description": "Requests under way."})
    failures = fields.Integer(required=True, metadata={"description": "Failures in a row."})
    cause = fields.String(required=True, metadata={"description": "The last failure's."})


class FailedJobs(Schema):
    """Jobs that a plugin failed in the last hour."""

    plugin = fields.String(required=True)
    count = fields.Integer(required=True)
    reason = fields.String(required=True, metadata={"description": "Why the last one failed."})


class QueueProbe(Schema):
    """When the last probe came through a queue."""

    queue = fields.String(required=True)
    ageSeconds = _seconds("Age of the last probe that arrived.")


class Worker(Schema):
    """A worker."""

    worker = fields.String(required=True)
    heartbeatAgeSeconds = _seconds("Since its last heartbeat.")


class Ready(Schema):
    """That requests can be served."""

    cluster = fields.String(
        required=True,
        metadata={
            "description": "Why the cluster cannot be used, and since when; empty when it can. Jobs wait for it."
        },
    )


class ClusterHealth(Schema):
    """What the watcher reports of the cluster."""

    name = fields.String(required=True)
    usable = fields.Boolean(required=True, metadata={"description": "By the last report; false before the first."})
    problem = fields.String(required=True, metadata={"description": "Why it cannot be used; empty when it can."})
    since = fields.DateTime(
        required=True, allow_none=True, metadata={"description": "When the problem began; null without one."}
    )
    reportAgeSeconds = _seconds("Since the watcher's last report; null before its first.", allow_none=True)
    lagSeconds = _seconds("How long ago the watcher saw the oldest change that it has not written yet.")


class Status(Schema):
    """The state of the service."""

    problems = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "Problems that an operator should look into; empty when there are none."},
    )
    jobs = fields.Dict(
        fields.String(),
        fields.Integer(),
        required=True,
        metadata={"description": "Jobs by state; the ended ones are counted once a minute."},
    )
    live = fields.List(fields.Nested(LiveJobs), required=True)
    steps = fields.List(fields.Nested(StepGroup), required=True)
    stepLagSeconds = _seconds("How long the most overdue step has been overdue.")
    deliveries = fields.List(fields.Nested(WaitingDeliveries), required=True)
    runs = fields.Dict(
        fields.String(),
        fields.Integer(),
        required=True,
        metadata={"description": "Runs of flows by state; the ended ones are counted once a minute."},
    )
    endedAgeSeconds = _seconds("How long ago the ended jobs and runs were counted.")
    failedJobs = fields.List(fields.Nested(FailedJobs), required=True)
    failingSchedules = fields.Integer(
        required=True, metadata={"description": "Schedules whose runs cannot be created."}
    )
    cleanups = fields.Integer(
        required=True, metadata={"description": "Ended jobs of which something may be left in the cluster."}
    )
    observationAgeSeconds = _seconds("Age of the oldest last observation of a launched job.")
    queues = fields.Dict(
        fields.String(),
        fields.Integer(),
        required=True,
        allow_none=True,
        metadata={"description": "Messages that wait, by queue; null while Redis is away."},
    )
    plugins = fields.List(fields.Nested(PluginCircuit), required=True)
    workers = fields.List(fields.Nested(Worker), required=True)
    beatHeartbeatAgeSeconds = _seconds("Since beat's last heartbeat; null before its first.", allow_none=True)
    cluster = fields.Nested(ClusterHealth, required=True)
    queueProbes = fields.List(fields.Nested(QueueProbe), required=True)


class Rotated(Schema):
    """How many stored secrets are now encrypted with the first key."""

    count = fields.Integer(required=True)
