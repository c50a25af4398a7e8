"""The metrics that the tasks of a run left behind."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database.models import TaskAttempt, TaskRunRow
from pipeline_core.flows.runs import queries
from pipeline_core.jobs import results


def by_task(session: Session, run_id: str, actor: Actor) -> dict[str, list[Any]]:
    """By each task's name, the metrics that the replicas of its last try left. Raises NotFound."""
    queries.visible(session, run_id, actor)
    query = (
        select(TaskRunRow.name, TaskAttempt.job_id)
        .outerjoin(TaskAttempt, queries.LATEST)
        .where(TaskRunRow.run_id == run_id)
        .order_by(TaskRunRow.position)
    )
    jobs = {row.name: row.job_id or "" for row in session.execute(query)}
    kept = results.read(session, [job_id for job_id in jobs.values() if job_id])
    return {
        name: [metric for result in kept.get(job_id, ()) for metric in result.metrics or []]
        for name, job_id in jobs.items()
    }
