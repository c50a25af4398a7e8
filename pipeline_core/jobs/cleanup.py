"""Cleanup: delete all that is left of an ended job in the cluster, also what a late launch started."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, or_, select, update

from pipeline_core.clusters.factory import cluster
from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Cleanup, Job
from pipeline_core.jobs import lifecycle, results
from pipeline_core.settings import settings
from pipeline_core.states import JobState


@again_if_contended
def clean_up(job_id: str) -> bool:
    """Collect an ended job's results, then stop and delete what it has in the cluster. Returns whether nothing is left.

    Pods that have ended are kept for PIPELINE_POD_TTL. Raises ClusterUnavailable, Unavailable.
    """
    results.collect(job_id)
    kept_until = _kept_until(job_id)
    if kept_until is not None:
        if cluster().end(job_id):
            _write(job_id, kept_until=kept_until)
        return False
    if not cluster().delete(job_id):
        return False
    failpoints.reach(Point.CLUSTER_CLEARED)
    return _write(job_id, cleanup=Cleanup.DONE)


def _kept_until(job_id: str) -> datetime | None:
    """Until when the ended pods of a job are kept; None when that time has passed, or pods are not kept."""
    seconds = settings().pod_ttl
    if not seconds or settings().cluster_driver != "kubernetes":
        return None
    with transaction() as session:
        finished = session.execute(select(Job.finished_at).where(Job.id == job_id)).scalar_one_or_none()
    until = finished + timedelta(seconds=seconds) if finished else None
    return until if until and until > now() else None


def _write(job_id: str, **change: Cleanup | datetime) -> bool:
    """Write these columns of a pending cleanup, unless a launch in progress may still start something. Returns whether they
    were written: then nothing of the job runs any more."""
    moment = now()
    with transaction() as session:
        job = session.scalar(
            update(Job)
            .where(
                Job.id == job_id,
                Job.cleanup == Cleanup.PENDING,
                (Job.cleanup_after.is_(None)) | (Job.cleanup_after < moment),
            )
            .values(**change)
            .returning(Job)
        )
        if job is not None and job.state == JobState.STOPPED:
            lifecycle.notify_listeners(session, job, moment)
        return job is not None


def is_due(moment: datetime | ColumnElement[datetime]) -> ColumnElement[bool]:
    """Whether the cleanup of an ended job is due at this moment."""
    return and_(Job.cleanup == Cleanup.PENDING, or_(Job.kept_until.is_(None), Job.kept_until <= moment))


def pending(limit: int) -> list[str]:
    """Ended jobs whose cleanup is due now."""
    with transaction() as session:
        return list(session.execute(select(Job.id).where(is_due(now())).order_by(Job.id).limit(limit)).scalars())


def delete_late_launch(job_id: str) -> None:
    """Clean up after a launch whose job was stopped meanwhile: delete what it has just started."""
    with transaction() as session:
        ended = session.execute(select(Job.finished_at).where(Job.id == job_id)).scalar_one_or_none() is not None
        session.execute(
            update(Job)
            .where(Job.id == job_id, Job.finished_at.is_not(None))
            .values(cleanup_after=None, kept_until=None)
        )
    if ended:
        clean_up(job_id)
