"""Jobs, trail entries and events as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row
from sqlalchemy.orm import InstrumentedAttribute

from pipeline_core.common.clock import rfc3339
from pipeline_core.database.models import Delivery, DeliveryStatus, Event, Job, TrailRow

LIST_COLUMNS: tuple[InstrumentedAttribute[Any], ...] = (
    Job.id,
    Job.name,
    Job.kind,
    Job.user_id,
    Job.run_id,
    Job.state,
    Job.stage,
    Job.reason,
    Job.created_at,
    Job.started_at,
    Job.finished_at,
)
"""All that a list shows, so that it never reads a job's documents."""


def summary(job: Row[Any] | Job) -> dict[str, Any]:
    """A job as lists show it."""
    return {
        "jobID": job.id,
        "jobName": job.name,
        "jobKind": job.kind,
        "userID": job.user_id,
        "runID": job.run_id,
        "state": job.state,
        "stage": job.stage,
        "reason": job.reason,
        "createdAt": rfc3339(job.created_at),
        "startAt": rfc3339(job.started_at),
        "finishedAt": rfc3339(job.finished_at),
    }


def trail_entry(entry: TrailRow) -> dict[str, Any]:
    """One plugin call, or one resume; `actor` is who resumed."""
    return {
        "stage": entry.stage,
        "plugin": entry.plugin_key,
        "asking": entry.call_number,
        "attempts": entry.attempts,
        "startedAt": rfc3339(entry.started_at),
        "durationMs": entry.duration_ms,
        "outcome": entry.outcome,
        "decision": entry.decision,
        "reason": entry.reason,
        "factors": entry.factors,
        "patch": entry.patch,
        "actor": entry.actor,
    }


def event(change: Event, deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """One change of state, and its delivery to each subscriber."""
    return {
        "sequence": change.sequence,
        "state": change.state,
        "previousState": change.previous_state,
        "reason": change.reason,
        "actor": change.actor,
        "occurredAt": rfc3339(change.occurred_at),
        "deliveries": [
            {
                "id": delivery.id,
                "plugin": delivery.plugin_key,
                "status": delivery.status,
                "attempts": delivery.attempts,
                "lastAnswer": delivery.last_answer,
                "nextAt": rfc3339(delivery.next_at) if delivery.status == DeliveryStatus.WAITING else None,
                "finishedAt": rfc3339(delivery.finished_at),
            }
            for delivery in deliveries
        ],
    }
