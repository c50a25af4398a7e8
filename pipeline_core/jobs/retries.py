"""Retries of replicas: a role's `retryPolicy` says how often, and after what delay, a replica that failed is tried again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline_core.clusters.base import LaunchRequest, Observation, ReplicaKey, ReplicaReport
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Job, JobDocument, Replica
from pipeline_core.jobs import lifecycle
from pipeline_core.stages.order import Stage
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.taskset.document import Role
from pipeline_core.taskset.document import roles as roles_of

Known = Mapping[tuple[str, int], ReplicaReport]
"""The latest try of each replica, by role and index."""


def counted(role: Role, report: ReplicaReport | None) -> ReplicaState:
    """A replica's state as it counts for its role: one that failed and will be tried again is still running."""
    if report is None:
        return ReplicaState.WAITING
    if report.state is ReplicaState.FAILED and role.retry.allows(report.attempt):
        return ReplicaState.RUNNING
    return report.state


def next_at(document: Mapping[str, Any], known: Known, states: Mapping[str, ReplicaState]) -> datetime | None:
    """When the first of the failed replicas is to be tried again; None when there is none.

    `states` are the roles' states: replicas of a role that has ended are not tried again.
    """
    roles = {role.name: role for role in roles_of(document)}
    times = [
        _again_at(roles[report.role], report)
        for report in known.values()
        if report.role in roles and _waits(roles[report.role], states[report.role], report)
    ]
    return min(times, default=None)


def _waits(role: Role, state: ReplicaState, tried: ReplicaReport | Replica) -> bool:
    """Whether a replica is to be tried again, while its role stands like this."""
    return not state.ended and tried.state == ReplicaState.FAILED and role.retry.allows(tried.attempt)


def _again_at(role: Role, tried: ReplicaReport | Replica) -> datetime:
    return (tried.finished_at or now()) + timedelta(seconds=role.retry.delay)


def due(limit: int) -> list[str]:
    """Jobs of which a replica is to be tried again now."""
    with transaction() as session:
        return list(
            session.scalars(select(Job.id).where(Job.retry_at <= func.now()).order_by(Job.retry_at).limit(limit))
        )


def begin(job_id: str) -> LaunchRequest | None:
    """Write down that the replicas that are due are tried again; what the cluster is to be told, None when nothing is.

    The intent is committed first: whoever finds it, and the cluster without those tries, launches them.
    """
    with transaction() as session:
        job = lifecycle.lock(session, job_id)
        if job.stage != Stage.CLUSTER or JobState(job.state).final or job.retry_at is None or job.retry_at > now():
            return None
        document = session.scalar(select(JobDocument.taskset).where(JobDocument.job_id == job_id)) or {}
        states = session.scalar(select(JobDocument.roles).where(JobDocument.job_id == job_id)) or {}
        roles = {role.name: role for role in roles_of(document)}
        rows = session.scalars(select(Replica).where(Replica.job_id == job_id)).all()
        later = []
        for row in rows:
            role, state = roles[row.role], ReplicaState(states.get(row.role, ReplicaState.WAITING))
            if not _waits(role, state, row):
                continue
            at = _again_at(role, row)
            if at > now():
                later.append(at)
                continue
            row.attempt += 1
            row.state, row.reason, row.diagnostics = ReplicaState.WAITING, "", ""
            row.exit_code = row.started_at = row.finished_at = None
            job.retried += 1
        job.retry_at = min(later, default=None)
        session.flush()
        return _unit(session, job, document)


def absent(session: Session, job: Job, observation: Observation) -> LaunchRequest | None:
    """What to tell the cluster when a try that was written down is not among those that it told of; else None."""
    told = {(report.role, report.index): report.attempt for report in observation.replicas}
    rows = session.scalars(select(Replica).where(Replica.job_id == job.id, Replica.state == ReplicaState.WAITING)).all()
    if all(told.get((row.role, row.index), -1) >= row.attempt for row in rows):
        return None
    document = session.scalar(select(JobDocument.taskset).where(JobDocument.job_id == job.id)) or {}
    return _unit(session, job, document)


def _unit(session: Session, job: Job, document: Mapping[str, Any]) -> LaunchRequest:
    rows = session.scalars(select(Replica).where(Replica.job_id == job.id))
    tries = [ReplicaKey(row.role, row.index, row.attempt) for row in rows if not ReplicaState(row.state).ended]
    return LaunchRequest(job.id, job.namespace, job.user_id, document, job.attempt, tuple(sorted(tries)))
