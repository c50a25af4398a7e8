"""The logs of a job's replicas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.clusters.base import LogLine, LogQuery
from pipeline_core.clusters.factory import cluster
from pipeline_core.clusters.log_cursor import LogCursor, LogProgress
from pipeline_core.clusters.logs import as_text
from pipeline_core.common.clock import rfc3339
from pipeline_core.database import transaction
from pipeline_core.database.engine import to_json
from pipeline_core.database.models import Job, JobDocument, Replica
from pipeline_core.errors import Expired, NotFound
from pipeline_core.jobs.queries import visible
from pipeline_core.stages.names import Stage
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.taskset.document import roles

CURSOR_LINES = 200
"""After so many lines there is a cursor at the latest."""
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


def records(job_id: str, query: LogQuery, start: LogCursor) -> Iterator[str]:
    """The lines as JSON objects, each with its newline, and between them `{"cursor": …}`: where to go on from there. Those that
    were read before `start` are left out.

    A cursor comes about each second in which there are lines, after CURSOR_LINES of them, and at the end; an empty string keeps
    the connection alive. Raises what `lines` raises.
    """
    progress = LogProgress(start)
    starts = {origin: since for origin, (since, _) in start.places.items()}
    lines_since, cursor_at = 0, time.monotonic()
    for line in cluster().logs(job_id, replace(query, starts=starts)):
        if line is not None and progress.is_new(line):
            lines_since += 1
            yield _record({"time": rfc3339(line.time), "source": line.source, "text": line.text, "open": line.open})
        is_due = line is None or lines_since >= CURSOR_LINES or time.monotonic() >= cursor_at + POLL_SECONDS
        if lines_since and is_due:
            lines_since, cursor_at = 0, time.monotonic()
            yield _record({"cursor": str(progress.cursor)})
        elif line is None:
            yield ""
    yield _record({"cursor": str(progress.cursor)})


def _record(record: Mapping[str, Any]) -> str:
    return to_json(record) + "\n"


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
