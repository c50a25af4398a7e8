"""The logs of a job's replicas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.clusters.base import LogLine, LogQuery
from pipeline_core.clusters.factory import cluster
from pipeline_core.clusters.logs import as_text
from pipeline_core.common.clock import rfc3339
from pipeline_core.database import transaction
from pipeline_core.database.models import Job, JobDocument, Replica
from pipeline_core.errors import Expired, NotFound
from pipeline_core.jobs.queries import visible
from pipeline_core.stages.names import Stage
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.taskset.document import roles

POLL_SECONDS = 1.0
"""How often a follower checks whether more lines may come."""


def check(session: Session, job_id: str, actor: Actor, query: LogQuery) -> None:
    """Raises NotFound when there is no such job, no such task in its TaskSet, or no such replica of the task; Expired
    when its logs were deleted because they were older than PIPELINE_LOG_DAYS."""
    pruned = visible(session, job_id, actor, Job.logs_pruned_at).logs_pruned_at
    if pruned is not None:
        raise Expired(f'The logs of job "{job_id}" expired on {rfc3339(pruned)}.')
    _sources(session, job_id, query)


def lines(job_id: str, query: LogQuery) -> Iterator[str]:
    """The lines by time, each with its newline, prefixed with `source | ` when they may come from several replicas.

    A followed log ends with the job, or with the task or replica of the query; empty strings keep the connection alive. A line
    that is still open, such as a prompt, comes without its newline.
    Raises NoSuchAttempt and ClusterUnavailable, at the first line at the latest.
    """
    merged: bool | None = None

    def prefix(line: LogLine) -> str:
        nonlocal merged
        if merged is None:
            with transaction() as session:
                merged = _sources(session, job_id, query) > 1
        return f"{line.source} | " if merged else ""

    return as_text(cluster().logs(job_id, query), prefix)


def finished(job_id: str, query: LogQuery) -> Callable[[], bool]:
    """A function that returns whether no further replica attempt can begin that the query would include.

    It reads the database at most once in POLL_SECONDS.
    """
    checked_at = float("-inf")

    def check_now() -> bool:
        nonlocal checked_at
        if time.monotonic() - checked_at < POLL_SECONDS:
            return False
        checked_at = time.monotonic()
        with transaction() as session:
            return not _may_begin(session, job_id, query)

    return check_now


def _may_begin(session: Session, job_id: str, query: LogQuery) -> bool:
    """Whether another replica attempt can begin that the query would include."""
    job = session.get(Job, job_id)
    if job is None or JobState(job.state).final:
        return False
    if query.attempt is not None:
        return query.attempt == job.attempt == 0 and job.stage != Stage.CLUSTER
    if job.stage != Stage.CLUSTER or job.retry_at is not None or (query.role is None and query.index is None):
        return True
    chosen = select(Replica.state).where(Replica.job_id == job_id)
    if query.role is not None:
        chosen = chosen.where(Replica.role == query.role)
    if query.index is not None:
        chosen = chosen.where(Replica.index == query.index)
    states = session.scalars(chosen).all()
    return not states or not all(ReplicaState(state).ended for state in states)


def _sources(session: Session, job_id: str, query: LogQuery) -> int:
    """How many replicas the query is about. Raises NotFound."""
    taskset = session.scalar(select(JobDocument.taskset).where(JobDocument.job_id == job_id))
    return _replicas(job_id, taskset, query)


def _replicas(job_id: str, taskset: Any, query: LogQuery) -> int:
    amounts = {role.name: role.replicas for role in roles(taskset)} if taskset else {}
    if query.role is not None:
        if query.role not in amounts:
            raise NotFound(f'Job "{job_id}" has no task "{query.role}".')
        amounts = {query.role: amounts[query.role]}
    if query.index is None:
        return sum(amounts.values())
    having = [role for role, amount in amounts.items() if query.index < amount]
    if not having:
        raise NotFound(f'Job "{job_id}" has no replica {query.index} of {query.role or "any task"}.')
    return len(having)
