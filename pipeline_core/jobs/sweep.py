"""The sweep: finds steps whose message was lost, whose worker died, or that were to wait until now."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select, update

from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import Step
from pipeline_core.settings import settings

DUE = Step.due_at <= func.now()
"""Whether a step is to be published now."""


@again_if_contended
def due_steps(limit: int) -> list[wakeups.StepDue]:
    """Steps that are due and that no message seems to be on its way for. Moves their `due_at` into the future.

    Covers lost messages, dead workers, and postponed plugin calls. Two sweeps at once get different rows (SKIP LOCKED).
    """
    wait = settings().wake_after_seconds
    due = (select(Step.job_id).where(DUE).order_by(Step.due_at).limit(limit).with_for_update(skip_locked=True)).cte(
        "due"
    )
    with transaction() as session:
        rows = session.execute(
            update(Step)
            .where(Step.job_id.in_(select(due.c.job_id)))
            .values(
                publish_count=Step.publish_count + 1,
                # Exponential backoff: a backlog must not be multiplied by messages for the steps that wait in it.
                due_at=func.now() + timedelta(seconds=wait) * func.power(2, func.least(Step.publish_count, 5)),
            )
            .returning(Step.job_id, Step.epoch, Step.stage)
        ).all()
    return [wakeups.StepDue(row.job_id, row.epoch, row.stage) for row in rows]
