"""Cleaning up: an ended job leaves nothing running in the cluster, and nothing that a late launch may have put there."""

from __future__ import annotations

from sqlalchemy import select, update

from pipeline_core import faults
from pipeline_core.clock import now
from pipeline_core.clusters import cluster
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Cleanup, Job
from pipeline_core.faults import Point
from pipeline_core.jobs import results


@again_if_contended
def clean_up(job_id: str) -> bool:
    """End what an ended job may have left in the cluster, and keep its results; whether nothing of it is left.

    Raises ClusterAway, Unavailable.
    """
    results.keep(job_id)
    if not cluster().delete(job_id):
        return False
    faults.reach(Point.CLUSTER_CLEARED)
    with transaction() as session:
        return (
            session.execute(
                update(Job)
                .where(
                    Job.id == job_id,
                    Job.cleanup == Cleanup.PENDING,
                    (Job.cleanup_after.is_(None)) | (Job.cleanup_after < now()),
                )
                .values(cleanup=Cleanup.DONE)
                .returning(Job.id)
            ).one_or_none()
            is not None
        )


def uncleaned(limit: int) -> list[str]:
    """Ended jobs of which something may be left in the cluster."""
    with transaction() as session:
        return list(
            session.execute(
                select(Job.id).where(Job.cleanup == Cleanup.PENDING).order_by(Job.id).limit(limit)
            ).scalars()
        )


def withdraw(job_id: str) -> None:
    """Delete what a launch has just put into the cluster for a job that was stopped under its hands."""
    with transaction() as session:
        ended = session.execute(select(Job.finished_at).where(Job.id == job_id)).scalar_one_or_none() is not None
        session.execute(update(Job).where(Job.id == job_id, Job.finished_at.is_not(None)).values(cleanup_after=None))
    if ended:
        clean_up(job_id)
