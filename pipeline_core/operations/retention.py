"""Retention: delete jobs, runs, logs, keys, sessions and changes in the feed that are older than the settings say. The audit log
is never deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, delete, exists, func, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from pipeline_core.auth import browser_sessions
from pipeline_core.clusters.factory import cluster
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_job_id, new_run_id
from pipeline_core.database import transaction
from pipeline_core.database.models import (
    Cleanup,
    Delivery,
    DeliveryStatus,
    FeedChange,
    FlowRow,
    IdempotencyKey,
    Job,
    RunRow,
)
from pipeline_core.flows.states import Trigger
from pipeline_core.operations import heartbeats
from pipeline_core.settings import settings

IDEMPOTENCY_KEY_HOURS = 24
"""How long a request with the same Idempotency-Key is answered with what the first one made."""

_WITH_LOGS = (
    Job.finished_at.is_not(None),
    Job.logs_pruned_at.is_(None),
    func.coalesce(Job.cleanup, Cleanup.DONE) == Cleanup.DONE,
)
"""Whether a job has ended, nothing of it is left in the cluster, and its logs were not deleted."""


def enforce(limit: int) -> int:
    """Delete expired jobs, runs, logs, keys, browser sessions and changes in the feed, at most `limit` of each. Returns how many.
    Raises Unavailable, ClusterUnavailable.

    What the cluster keeps of the jobs is deleted before their rows: after a failure the rows are found again.
    """
    moment = now()
    keys = delete_keys(moment - timedelta(hours=IDEMPOTENCY_KEY_HOURS), limit) + heartbeats.delete_old()
    with transaction() as session:
        keys += browser_sessions.delete_ended(session, limit)
    kept_days = settings().retention_days
    before = moment - timedelta(days=kept_days)
    jobs = old_jobs(before, limit) if kept_days else []
    if jobs:
        cluster().prune(jobs)
        delete_jobs(jobs)
    runs = delete_runs(before, limit) + delete_feed_changes(before, limit) if kept_days else 0
    log_days = settings().log_days
    logs = delete_logs(moment - timedelta(days=log_days), limit) if log_days else 0
    if most := settings().log_total_bytes:
        measure_logs(limit)
        logs += delete_logs_beyond(most, limit)
    return keys + len(jobs) + runs + logs


def old_jobs(before: datetime, limit: int) -> list[str]:
    """Jobs that ended before then, are cleaned up, and have no waiting deliveries, oldest first."""
    query = (
        select(Job.id)
        .where(
            # IDs sort by the time of submission, so the index scan ends at jobs that are too young.
            Job.id < new_job_id(before),
            Job.finished_at < before,
            func.coalesce(Job.cleanup, Cleanup.DONE) == Cleanup.DONE,
            ~_has_waiting_deliveries(Job.id),
        )
        .order_by(Job.id)
        .limit(limit)
    )
    with transaction() as session:
        return list(session.scalars(query))


def delete_logs(before: datetime, limit: int) -> int:
    """Delete the logs of jobs that ended before then and are cleaned up. Returns of how many jobs. Raises ClusterUnavailable."""
    return _delete_logs(
        select(Job.id).where(*_WITH_LOGS, Job.finished_at < before).order_by(Job.finished_at).limit(limit)
    )


def measure_logs(limit: int) -> int:
    """Store how large the logs are of jobs that ended and of which it is not known, of at most `limit`, oldest first. Returns
    of how many. Raises ClusterUnavailable."""
    query = select(Job.id).where(*_WITH_LOGS, Job.log_bytes.is_(None)).order_by(Job.finished_at).limit(limit)
    with transaction() as session:
        jobs = list(session.scalars(query))
    if jobs:
        sizes = cluster().log_sizes(jobs)
        with transaction() as session:
            session.execute(update(Job), [{"id": job, "log_bytes": size} for job, size in sorted(sizes.items())])
    return len(jobs)


def delete_logs_beyond(most: int, limit: int) -> int:
    """Delete the logs of jobs that ended, oldest first and of at most `limit`, as long as the measured ones have more than
    `most` bytes together. Returns of how many jobs. Raises ClusterUnavailable."""
    newer = func.sum(Job.log_bytes).over(order_by=(Job.finished_at.desc(), Job.id.desc()))
    totals = select(Job.id, Job.finished_at, newer.label("total")).where(*_WITH_LOGS, Job.log_bytes > 0).subquery()
    return _delete_logs(
        select(totals.c.id).where(totals.c.total > most).order_by(totals.c.finished_at, totals.c.id).limit(limit)
    )


def _delete_logs(query: Select[str]) -> int:
    with transaction() as session:
        jobs = list(session.scalars(query))
    if jobs:
        cluster().prune_logs(jobs)
        with transaction() as session:
            session.execute(update(Job).where(Job.id.in_(jobs)).values(logs_pruned_at=now()))
    return len(jobs)


def delete_runs(before: datetime, limit: int) -> int:
    """Delete runs of flows that ended before then, with their tasks and alerts, unless they have waiting deliveries; how
    many. Flows keep of which points they were, so that these get no run again."""
    old = (
        select(RunRow.id)
        .where(RunRow.id < new_run_id(before), RunRow.finished_at < before, ~_has_waiting_deliveries(RunRow.id))
        .order_by(RunRow.id)
        .limit(limit)
    )
    with transaction() as session:
        runs = list(session.scalars(old))
        _keep_points(session, runs)
        session.execute(delete(Delivery).where(Delivery.subject_id.in_(runs)))
        session.execute(delete(RunRow).where(RunRow.id.in_(runs)))
    return len(runs)


def delete_feed_changes(before: datetime, limit: int) -> int:
    """Delete what is in the feed beside events and happened before then. Returns how many."""
    oldest = select(FeedChange.id).order_by(FeedChange.id).limit(limit)
    with transaction() as session:
        gone = session.execute(
            delete(FeedChange)
            .where(FeedChange.id.in_(oldest), FeedChange.occurred_at < before)
            .returning(FeedChange.id)
        )
        return len(gone.all())


def _keep_points(session: Session, runs: Sequence[str]) -> None:
    points = (
        select(
            RunRow.flow_id,
            func.min(RunRow.execution_date).label("first"),
            func.max(RunRow.execution_date).label("last"),
        )
        .where(RunRow.id.in_(runs), RunRow.trigger.in_([Trigger.SCHEDULE, Trigger.BACKFILL]))
        .group_by(RunRow.flow_id)
        .subquery()
    )
    # LEAST and GREATEST leave out what is NULL.
    session.execute(
        update(FlowRow)
        .where(FlowRow.id == points.c.flow_id)
        .values(
            deleted_from=func.least(FlowRow.deleted_from, points.c.first),
            deleted_until=func.greatest(FlowRow.deleted_until, points.c.last),
        )
        .execution_options(synchronize_session=False)
    )


def _has_waiting_deliveries(subject_id: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    return exists().where(Delivery.subject_id == subject_id, Delivery.status == DeliveryStatus.WAITING)


def delete_jobs(job_ids: Sequence[str]) -> None:
    """Delete jobs with all rows that refer to them (ON DELETE CASCADE)."""
    with transaction() as session:
        session.execute(delete(Job).where(Job.id.in_(job_ids)))


def delete_keys(before: datetime, limit: int) -> int:
    """Delete idempotency keys that were created before then. Returns how many."""
    old = (
        select(IdempotencyKey.token_id, IdempotencyKey.key)
        .where(IdempotencyKey.created_at < before)
        .order_by(IdempotencyKey.created_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("old")
    )
    with transaction() as session:
        gone = session.execute(
            delete(IdempotencyKey)
            .where(IdempotencyKey.token_id == old.c.token_id, IdempotencyKey.key == old.c.key)
            .returning(IdempotencyKey.key)
        )
        return len(gone.all())
