"""Leases of claimed steps: renewed while their worker lives, or given back. Also of steps that wait in a worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Step, table
from pipeline_core.jobs import trail_rows
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, TrailEntry
from pipeline_core.stages.shares import Waiting

_STEP = table(Step)


class LeaseLost(Exception):
    """The job was stopped, or another worker took the step over: this worker's outcome must not be written."""


@again_if_contended
def renew(step: ClaimedStep, entries: Sequence[TrailEntry] = ()) -> None:
    """Renew the lease of a claimed step, and write the trail entries of its plugin calls so far.

    Raises LeaseLost, Unavailable.
    """
    with transaction() as session:
        lease_end = func.now() + timedelta(seconds=settings().lease_seconds)
        renewed = session.execute(
            update(Step)
            .where(Step.job_id == step.job_id, Step.epoch == step.epoch, Step.lease_owner == step.owner)
            .values(lease_until=lease_end, due_at=lease_end)
            .returning(Step.job_id)
        ).one_or_none()
        if renewed is None:
            raise LeaseLost(step.job_id)
        trail_rows.write(session, step, entries)


@again_if_contended
def renew_all(steps: Sequence[ClaimedStep]) -> None:
    """Renew the leases of these claimed steps, as far as their owners still hold them, by one statement. Raises Unavailable.

    A step that another transaction has locked, such as one that is being finished, is left to the next call: waiting for it
    would hold up the others.
    """
    lease_end = func.now() + timedelta(seconds=settings().lease_seconds)
    held = (
        select(Step.job_id)
        .where(Step.job_id.in_([step.job_id for step in steps]), Step.lease_owner.in_([step.owner for step in steps]))
        .with_for_update(skip_locked=True)
    ).cte("held")
    with transaction() as session:
        session.execute(
            update(Step)
            .where(Step.job_id.in_(select(held.c.job_id)))
            .values(lease_until=lease_end, due_at=lease_end)
            .execution_options(synchronize_session=False)
        )


@again_if_contended
def release(step: ClaimedStep) -> None:
    """Give a claimed step back as if it had not been claimed. Does nothing when this owner no longer holds it.

    Raises Unavailable.
    """
    with transaction() as session:
        give_back(session, step.job_id, step.epoch, step.owner)


@again_if_contended
def keep_waiting(steps: Sequence[Waiting]) -> list[Waiting]:
    """Move on the time at which a tick would publish these released steps: they wait in a worker that lives.

    Returns those that still wait; one that another transaction has locked does not count. Raises Unavailable.
    """
    due = func.now() + timedelta(seconds=settings().lease_seconds)
    pending = (
        select(Step.job_id, Step.epoch, Step.stage)
        .where(Step.job_id.in_([step.job_id for step in steps]), Step.lease_owner.is_(None))
        .with_for_update(skip_locked=True)
    ).cte("pending")
    with transaction() as session:
        rows = session.execute(
            update(Step)
            .where(Step.job_id.in_(select(pending.c.job_id)))
            .values(due_at=due)
            .returning(Step.job_id, Step.epoch, Step.stage)
            .execution_options(synchronize_session=False)
        ).all()
    return [step for step in (Waiting(row.job_id, row.epoch, Stage(row.stage)) for row in rows) if step in set(steps)]


def give_back(session: Session, job_id: str, epoch: int, owner: str) -> None:
    """Give a claimed step back as `release` does, in the caller's transaction."""
    session.execute(
        update(_STEP)
        .where(_STEP.c.job_id == job_id, _STEP.c.epoch == epoch, _STEP.c.lease_owner == owner)
        .values(
            lease_owner=None,
            lease_until=None,
            due_at=func.now() + timedelta(seconds=settings().wake_after_seconds),
            claim_count=_STEP.c.claim_count - 1,
        )
    )
