"""Payloads of what operators ask."""

from __future__ import annotations

from typing import Any

from pipeline_core.operations import heartbeats
from pipeline_core.operations.health_checks import problems
from pipeline_core.operations.status import Status
from pipeline_core.settings import Settings


def status(now: Status, limits: Settings) -> dict[str, Any]:
    """How the service stands."""
    return {
        "problems": problems(now, limits),
        "jobs": now.states(),
        "live": [{"state": state, "stage": stage, "count": count} for (state, stage), count in now.live.items()],
        "steps": [
            {
                "stage": steps.stage,
                "condition": steps.condition,
                "worker": steps.worker,
                "count": steps.count,
                "oldestSeconds": steps.oldest_seconds,
            }
            for steps in now.steps
        ],
        "stepLagSeconds": now.lag_seconds,
        "deliveries": [
            {"plugin": key, "count": waiting.count, "oldestSeconds": waiting.oldest_seconds}
            for key, waiting in now.deliveries.items()
        ],
        "runs": dict(now.runs),
        "failingSchedules": now.failing_schedules,
        "cleanups": now.cleanups,
        "observationAgeSeconds": now.observation_age_seconds,
        "queues": now.queues and dict(now.queues.waiting),
        "unacknowledged": now.queues and now.queues.unacknowledged,
        "plugins": [
            {
                "plugin": key,
                "circuit": health.circuit,
                "calls": health.calls,
                "failures": health.failures,
                "cause": health.cause,
            }
            for key, health in now.circuits.items()
        ],
        "workers": [{"worker": worker, "heartbeatAgeSeconds": age} for worker, age in now.worker_ages().items()],
        "beatHeartbeatAgeSeconds": now.heartbeat_ages.get(heartbeats.BEAT),
        "queueProbes": [{"queue": queue, "ageSeconds": age} for queue, age in now.queue_probe_ages().items()],
    }
