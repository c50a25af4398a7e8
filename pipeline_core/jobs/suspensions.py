"""Suspensions that end by themselves, as the gate that asked for them wished."""

from __future__ import annotations

from sqlalchemy import func, select

from pipeline_core.auth.actor import SYSTEM
from pipeline_core.database import transaction
from pipeline_core.database.models import Job
from pipeline_core.errors import Conflict, NotFound
from pipeline_core.jobs import control
from pipeline_core.plugins.answers import OnTimeout


def due(limit: int) -> list[str]:
    """Jobs whose suspension is over."""
    with transaction() as session:
        return list(
            session.execute(
                select(Job.id).where(Job.suspended_until <= func.now()).order_by(Job.suspended_until).limit(limit)
            ).scalars()
        )


def end(job_id: str) -> None:
    """End one suspension that is over; does nothing when someone else was first."""
    with transaction() as session:
        found = session.execute(
            select(Job.on_timeout, Job.suspended_by).where(Job.id == job_id, Job.suspended_until <= func.now())
        ).one_or_none()
    if found is None:
        return
    gate = found.suspended_by
    try:
        match found.on_timeout:
            case OnTimeout.STOP:
                control.stop(job_id, SYSTEM, reason=f"the suspension by {gate} has timed out")
            case OnTimeout.RESUME:
                control.resume(job_id, SYSTEM, reason=f"the suspension by {gate} has timed out", gate=gate)
            case _:
                control.resume(job_id, SYSTEM, reason=f"{gate} is to be asked again", gate=gate, ask_again=True)
    except (Conflict, NotFound):
        return
