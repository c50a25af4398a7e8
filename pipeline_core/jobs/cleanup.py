"""Cleaning up: an ended job leaves nothing running in the cluster, and nothing that a late launch may have put there."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import select, update

from pipeline_core.clusters.factory import cluster
from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Cleanup, Job
from pipeline_core.jobs import results
from pipeline_core.settings import settings


@again_if_contended
def clean_up(job_id: str) -> bool:
    """End what an ended job may have left in the cluster, and keep its results; whether nothing of it is left.

    What has ended is kept there for as long as PIPELINE_POD_TTL says. Raises ClusterUnavailable, Unavailable.
    """
    results.keep(job_id)
    keep = _keep_until(job_id)
    if keep is not None:
        if cluster().end(job_id):
            _note(job_id, kept_until=keep)
        return False
    if not cluster().delete(job_id):
        return False
    failpoints.reach(Point.CLUSTER_CLEARED)
    return _note(job_id, cleanup=Cleanup.DONE)


def _keep_until(job_id: str) -> datetime | None:
    """Until when what has ended of a job is to be kept; None when that is over, or there is nothing to keep."""
    seconds = settings().pod_ttl
    if not seconds or settings().cluster_driver != "kubernetes":
        return None
    with transaction() as session:
        finished = session.execute(select(Job.finished_at).where(Job.id == job_id)).scalar_one_or_none()
    until = finished + timedelta(seconds=seconds) if finished else None
    return until if until and until > now() else None


def _note(job_id: str, **change: Cleanup | datetime) -> bool:
    """Write down how far a job is cleaned up, unless a launch may yet bring something of it."""
    with transaction() as session:
        return (
            session.execute(
                update(Job)
                .where(
                    Job.id == job_id,
                    Job.cleanup == Cleanup.PENDING,
                    (Job.cleanup_after.is_(None)) | (Job.cleanup_after < now()),
                )
                .values(**change)
                .returning(Job.id)
            ).one_or_none()
            is not None
        )


def uncleaned(limit: int) -> list[str]:
    """Ended jobs of which something is to be ended or deleted in the cluster now."""
    with transaction() as session:
        return list(
            session.execute(
                select(Job.id)
                .where(Job.cleanup == Cleanup.PENDING, (Job.kept_until.is_(None)) | (Job.kept_until <= now()))
                .order_by(Job.id)
                .limit(limit)
            ).scalars()
        )


def withdraw(job_id: str) -> None:
    """Delete what a launch has just put into the cluster for a job that was stopped under its hands."""
    with transaction() as session:
        ended = session.execute(select(Job.finished_at).where(Job.id == job_id)).scalar_one_or_none() is not None
        session.execute(
            update(Job)
            .where(Job.id == job_id, Job.finished_at.is_not(None))
            .values(cleanup_after=None, kept_until=None)
        )
    if ended:
        clean_up(job_id)
