"""How a job's rows look to its users."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row
from sqlalchemy.orm import InstrumentedAttribute

from pipeline_core.database.models import Delivery, Event, Job, TrailEntry

LIST_COLUMNS: tuple[InstrumentedAttribute[Any], ...] = (
    Job.id,
    Job.name,
    Job.kind,
    Job.user_id,
    Job.state,
    Job.stage,
    Job.reason,
    Job.created_at,
    Job.started_at,
    Job.finished_at,
)
"""All that a list shows, so that it never reads a job's documents."""


def timestamp(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC, to the millisecond, with `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None


def summary(job: Row[Any] | Job) -> dict[str, Any]:
    """A job as lists show it."""
    return {
        "jobID": job.id,
        "jobName": job.name,
        "jobKind": job.kind,
        "userID": job.user_id,
        "state": job.state,
        "stage": job.stage,
        "reason": job.reason,
        "createdAt": timestamp(job.created_at),
        "startAt": timestamp(job.started_at),
        "finishedAt": timestamp(job.finished_at),
    }


def trail_entry(entry: TrailEntry) -> dict[str, Any]:
    """One asking of a plugin, or one resume; `actor` is who resumed."""
    return {
        "stage": entry.stage,
        "plugin": entry.plugin_key,
        "asking": entry.asking,
        "attempts": entry.attempts,
        "startedAt": timestamp(entry.started_at),
        "durationMs": entry.duration_ms,
        "outcome": entry.outcome,
        "decision": entry.decision,
        "reason": entry.reason,
        "factors": entry.factors,
        "patch": entry.patch,
        "actor": entry.actor,
    }


def event(change: Event, deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """One change of state, and how its way to each subscriber stands."""
    return {
        "sequence": change.sequence,
        "state": change.state,
        "previousState": change.previous_state,
        "reason": change.reason,
        "actor": change.actor,
        "occurredAt": timestamp(change.occurred_at),
        "deliveries": [
            {
                "id": delivery.id,
                "plugin": delivery.plugin_key,
                "status": delivery.status,
                "attempts": delivery.attempts,
                "lastAnswer": delivery.last_answer,
                "nextAt": timestamp(delivery.next_at) if delivery.finished_at is None else None,
                "finishedAt": timestamp(delivery.finished_at),
            }
            for delivery in deliveries
        ],
    }
