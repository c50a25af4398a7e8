"""Jobs, trail entries and events as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, and_, exists
from sqlalchemy.orm import InstrumentedAttribute

from pipeline_core.common.clock import rfc3339
from pipeline_core.database.models import Delivery, Event, Job, Plugin, ShadowAnswer, TrailRow
from pipeline_core.hooks import deliveries as hooks
from pipeline_core.stages.outcomes import SHADOW_CALL

GATE_GONE = and_(Job.suspended_at.is_not(None), ~exists().where(Plugin.key == Job.suspended_by)).label("gate_gone")
"""Whether a job is suspended by a plugin that is not registered any more."""

LIST_COLUMNS: tuple[InstrumentedAttribute[Any], ...] = (
    Job.id,
    Job.name,
    Job.kind,
    Job.user_id,
    Job.run_id,
    Job.state,
    Job.stage,
    Job.reason,
    Job.suspended_by,
    Job.suspended_at,
    Job.resumer,
    Job.created_at,
    Job.started_at,
    Job.finished_at,
)
"""The columns that a list shows; none of them is a document."""

_OF_A_DELIVERY = ("id", "plugin", "status", "attempts", "lastAnswer", "nextAt", "finishedAt")
"""What an event shows of its deliveries: not what is the event's own."""


def reason(reason: str, suspended_by: str, gate_gone: bool) -> str:
    """Why a job is in its state; it says so when the plugin that suspended it is not registered any more."""
    if not gate_gone:
        return reason
    gone = f"{suspended_by}, which suspended it, is not registered any more: resume or stop the job"
    return f"{reason}; {gone}" if reason else gone


def summary(job: Row[Any]) -> dict[str, Any]:
    """A job as lists show it, from LIST_COLUMNS and GATE_GONE."""
    return {
        "jobID": job.id,
        "jobName": job.name,
        "jobKind": job.kind,
        "userID": job.user_id,
        "runID": job.run_id,
        "state": job.state,
        "stage": job.stage,
        "reason": reason(job.reason, job.suspended_by, job.gate_gone),
        "suspendedBy": job.suspended_by or None,
        "suspendedAt": rfc3339(job.suspended_at),
        "resume": job.resumer or None,
        "createdAt": rfc3339(job.created_at),
        "startAt": rfc3339(job.started_at),
        "finishedAt": rfc3339(job.finished_at),
    }


def trail_entry(entry: TrailRow) -> dict[str, Any]:
    """One plugin call, or one resume; `actor` is who resumed."""
    return _call(entry, entry.call_number, entry.actor)


def shadow_answer(answer: ShadowAnswer) -> dict[str, Any]:
    """What a shadow answered, in the form of a plugin call."""
    return _call(answer, SHADOW_CALL, "")


def _call(entry: TrailRow | ShadowAnswer, call_number: int, actor: str) -> dict[str, Any]:
    return {
        "stage": entry.stage,
        "plugin": entry.plugin_key,
        "asking": call_number,
        "attempts": entry.attempts,
        "startedAt": rfc3339(entry.started_at),
        "durationMs": entry.duration_ms,
        "outcome": entry.outcome,
        "decision": entry.decision,
        "reason": entry.reason,
        "factors": entry.factors,
        "patch": entry.patch,
        "actor": actor,
    }


def change(event: Event) -> dict[str, Any]:
    """One change of state."""
    return {
        "sequence": event.sequence,
        "state": event.state,
        "previousState": event.previous_state,
        "reason": event.reason,
        "actor": event.actor,
        "occurredAt": rfc3339(event.occurred_at),
    }


def event(event: Event, deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """One change of state, and its delivery to each subscriber."""
    shown = [hooks.view(delivery, event.state) for delivery in deliveries]
    return {**change(event), "deliveries": [{name: view[name] for name in _OF_A_DELIVERY} for view in shown]}
