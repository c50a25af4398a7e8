"""The logs of a run: those of the last jobs of its tasks, merged by time."""

from __future__ import annotations

import heapq
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.clusters.base import LogLine, LogQuery
from pipeline_core.clusters.factory import cluster
from pipeline_core.clusters.logs import as_text
from pipeline_core.common.clock import rfc3339
from pipeline_core.database import transaction
from pipeline_core.database.models import Job, RunRow, TaskAttempt, TaskRunRow
from pipeline_core.errors import Expired, NotFound, PipelineError
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.runs import queries, repository
from pipeline_core.flows.runs.taskset import CONTAINER
from pipeline_core.jobs.logs import finished
from pipeline_core.validation.texts import shown

POLL_SECONDS = 1.0
"""How often a follower reads which jobs have started."""

MAX_FOLLOWED_JOBS = 32
"""Jobs that one follower reads at a time; the others are read when some of these have ended."""

_ONLY_REPLICA = f"{CONTAINER}-0"


LineQueue = queue.Queue[LogLine | PipelineError]


def check(session: Session, run_id: str, task: str | None, actor: Actor, attempt: int | None = None) -> None:
    """Raises NotFound unless the actor may see the run, and it has the task, which has had the attempt; Expired when the logs of
    all jobs that are asked for were kept for long enough."""
    run = session.get(RunRow, run_id)
    if run is None or not repository.is_visible(actor, run):
        raise NotFound(f"There is no run {shown(run_id)}.")
    if task is not None and session.get(TaskRunRow, (run_id, identity(task))) is None:
        raise NotFound(f"The run {run_id} has no task {shown(task)}.")
    query = (
        select(Job.logs_pruned_at)
        .join(TaskAttempt, TaskAttempt.job_id == Job.id)
        .join(TaskRunRow, _of_attempt(attempt))
        .where(TaskRunRow.run_id == run_id)
    )
    if task is not None:
        query = query.where(TaskRunRow.key == identity(task))
    pruned = session.scalars(query).all()
    if attempt is not None and not pruned:
        what = f"The task {shown(task)} of the run" if task is not None else "No task of the run"
        raise NotFound(f"{what} {shown(run_id)} has had {'no ' if task is not None else ''}attempt {attempt}.")
    expired = [at for at in pruned if at is not None]
    if expired and len(expired) == len(pruned):
        of_task = f"task {shown(task)} of " if task is not None else ""
        raise Expired(f"The logs of {of_task}run {shown(run_id)} expired on {rfc3339(max(expired))}.")


def _of_attempt(attempt: int | None) -> ColumnElement[bool]:
    """Joins each task with the attempt of this number, counted from 1; None: with its last one."""
    if attempt is None:
        return queries.LATEST
    own = and_(TaskAttempt.run_id == TaskRunRow.run_id, TaskAttempt.key == TaskRunRow.key)
    return and_(own, TaskAttempt.attempt == attempt)


def lines(run_id: str, task: str | None, query: LogQuery, attempt: int | None = None) -> Iterator[str]:
    """The lines of all tasks, or of one, by time, each with its newline and, but for a single task, `task | ` before it.

    They are those of each task's attempt of this number, counted from 1, by default of its last one. With `follow`, lines of
    jobs that run at the same time come as they are written, until the run has ended; an empty text keeps the connection alive.
    Raises ClusterUnavailable.
    """
    found = (_followed if query.follow else _merged_logs)(run_id, task, query, attempt)
    return as_text(found, lambda line: f"{line.source} | " if line.source else "")


def _merged_logs(run_id: str, task: str | None, query: LogQuery, attempt: int | None) -> Iterator[LogLine]:
    jobs, _, _ = _jobs(run_id, task, attempt)
    merged = _merge([_lines(job_id, name, task is None, query) for job_id, name in jobs.items()])
    # `tail` lines of each job were read; only the last of all these are wanted.
    return iter(deque(merged, maxlen=query.tail)) if query.tail is not None else merged


def _merge(of_jobs: Iterable[Iterator[LogLine | None]]) -> Iterator[LogLine]:
    return heapq.merge(*(filter(None, lines) for lines in of_jobs), key=lambda line: line.time)


def _followed(run_id: str, task: str | None, query: LogQuery, attempt: int | None) -> Iterator[LogLine | None]:
    """Lines in order: a job that starts after another one has ended is read after all lines of that one."""
    received: LineQueue = queue.Queue(maxsize=1000)
    stop = threading.Event()
    started: set[str] = set()
    readers: dict[str, threading.Thread] = {}
    current = query
    try:
        while True:
            jobs, ended, run_ended = _jobs(run_id, task, attempt)
            readers = {job_id: reader for job_id, reader in readers.items() if reader.is_alive()}
            new = [] if ended & readers.keys() else [job_id for job_id in jobs if job_id not in started]
            if new:
                yield from _drain(received, 0)
            # While a job has not ended, its replicas may be retried.
            of_jobs = {
                job_id: _lines(job_id, jobs[job_id], task is None, replace(current, finished=finished(job_id, current)))
                for job_id in new
            }
            yield from _merge([of_jobs[job_id] for job_id in new if job_id in ended])
            started |= ended & of_jobs.keys()
            for job_id in [job_id for job_id in new if job_id not in ended][: MAX_FOLLOWED_JOBS - len(readers)]:
                readers[job_id] = threading.Thread(
                    target=_read_into, args=(of_jobs[job_id], received, stop), daemon=True
                )
                readers[job_id].start()
                started.add(job_id)
            # Jobs that start later are read from their first line.
            current = replace(query, tail=None)
            all_read = not readers and started >= jobs.keys()
            yield from _drain(received, POLL_SECONDS)
            if run_ended and all_read:
                return
            yield None
    finally:
        stop.set()


def _drain(received: LineQueue, seconds: float) -> Iterator[LogLine]:
    """The received lines, until none has come for so long. Raises the error of a reader."""
    while True:
        try:
            item = received.get(timeout=seconds)
        except queue.Empty:
            return
        if isinstance(item, PipelineError):
            raise item
        yield item


def _read_into(lines: Iterator[LogLine | None], received: LineQueue, stop: threading.Event) -> None:
    try:
        for line in lines:
            if stop.is_set():
                return
            if line:
                _put(line, received, stop)
    except PipelineError as error:
        _put(error, received, stop)


def _put(item: LogLine | PipelineError, received: LineQueue, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            received.put(item, timeout=POLL_SECONDS)
            return
        except queue.Full:
            pass


def _lines(job_id: str, name: str, prefixed: bool, query: LogQuery) -> Iterator[LogLine | None]:
    for line in cluster().logs(job_id, query):
        if line is None:
            yield None
            continue
        source = "" if line.source == _ONLY_REPLICA else line.source
        yield replace(line, source="/".join(filter(None, (name if prefixed else "", source))))


def _jobs(run_id: str, task: str | None, attempt: int | None) -> tuple[Mapping[str, str], Set[str], bool]:
    """The tasks' names by the IDs of their jobs that have started, in the order of the DAG: the jobs of this attempt, or the last
    ones; which of these have ended; whether the run has."""
    query = (
        select(Job.id, TaskRunRow.name, Job.finished_at)
        .join(TaskAttempt, TaskAttempt.job_id == Job.id)
        .join(TaskRunRow, _of_attempt(attempt))
        .where(TaskRunRow.run_id == run_id, or_(Job.started_at.is_not(None), Job.finished_at.is_not(None)))
        .order_by(TaskRunRow.position)
    )
    if task is not None:
        query = query.where(TaskRunRow.key == identity(task))
    with transaction() as session:
        # Read before the jobs: so no job is missing once the run has ended.
        run_ended = session.scalar(select(RunRow.finished_at).where(RunRow.id == run_id)) is not None
        rows = session.execute(query).all()
    return {row.id: row.name for row in rows}, {row.id for row in rows if row.finished_at}, run_ended
