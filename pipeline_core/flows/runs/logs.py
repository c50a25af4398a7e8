"""What the tasks of a run wrote: the logs of their last jobs, merged."""

from __future__ import annotations

import heapq
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.clusters.base import LogQuery
from pipeline_core.clusters.factory import cluster
from pipeline_core.database import transaction
from pipeline_core.database.models import Job, RunRow, TaskAttempt, TaskRunRow
from pipeline_core.errors import NotFound, PipelineError
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.runs import queries, repository
from pipeline_core.flows.runs.taskset import CONTAINER
from pipeline_core.jobs.logs import finished
from pipeline_core.validation.texts import shown

LOOK_SECONDS = 1.0
"""How often a follower looks for jobs that have begun."""

AT_ONCE = 32
"""Jobs that one follower listens to at a time; others have their turn when one of these has ended."""

_ONLY_REPLICA = f"{CONTAINER}-0"


@dataclass(frozen=True, slots=True)
class _Line:
    time: datetime
    text: str


Came = queue.Queue[_Line | PipelineError]


def check(session: Session, run_id: str, task: str | None, actor: Actor) -> None:
    """Raises NotFound unless there is such a run that the actor sees, with such a task."""
    run = session.get(RunRow, run_id)
    if run is None or not repository.sees(actor, run):
        raise NotFound(f"There is no run {shown(run_id)}.")
    if task is not None and session.get(TaskRunRow, (run_id, identity(task))) is None:
        raise NotFound(f"The run {run_id} has no task {shown(task)}.")


def lines(run_id: str, task: str | None, query: LogQuery) -> Iterator[str]:
    """The lines of all tasks, or of one, by time, each with its newline and, but for a single task, `task | ` before it.

    With `follow`, those of jobs that run at the same time come as they are written, until the run has ended; an empty text
    is a sign of life. Raises ClusterUnavailable.
    """
    found = _followed(run_id, task, query) if query.follow else _written(run_id, task, query)
    return (f"{line.text}\n" if line else "" for line in found)


def _written(run_id: str, task: str | None, query: LogQuery) -> Iterator[_Line]:
    jobs, _, _ = _jobs(run_id, task)
    merged = _merged([_lines(job_id, name, task is None, query) for job_id, name in jobs.items()])
    # Each job gives its last lines; of all together, they are fewer.
    return iter(deque(merged, maxlen=query.tail)) if query.tail is not None else merged


def _merged(of_jobs: Iterable[Iterator[_Line | None]]) -> Iterator[_Line]:
    return heapq.merge(*(filter(None, lines) for lines in of_jobs), key=lambda line: line.time)


def _followed(run_id: str, task: str | None, query: LogQuery) -> Iterator[_Line | None]:
    """Lines in order: what begins after a job has ended is not listened to before all of that job has come."""
    came: Came = queue.Queue(maxsize=1000)
    stop = threading.Event()
    begun: set[str] = set()
    listeners: dict[str, threading.Thread] = {}
    asked = query
    try:
        while True:
            jobs, ended, over = _jobs(run_id, task)
            listeners = {job_id: listener for job_id, listener in listeners.items() if listener.is_alive()}
            new = [] if ended & listeners.keys() else [job_id for job_id in jobs if job_id not in begun]
            if new:
                yield from _come(came, 0)
            # A job may have its replicas tried again.
            of_jobs = {
                job_id: _lines(job_id, jobs[job_id], task is None, replace(asked, finished=finished(job_id, asked)))
                for job_id in new
            }
            yield from _merged([of_jobs[job_id] for job_id in new if job_id in ended])
            begun |= ended & of_jobs.keys()
            for job_id in [job_id for job_id in new if job_id not in ended][: AT_ONCE - len(listeners)]:
                listeners[job_id] = threading.Thread(target=_listen, args=(of_jobs[job_id], came, stop), daemon=True)
                listeners[job_id].start()
                begun.add(job_id)
            # What begins later is wanted as a whole.
            asked = replace(query, tail=None)
            heard = not listeners and begun >= jobs.keys()
            yield from _come(came, LOOK_SECONDS)
            if over and heard:
                return
            yield None
    finally:
        stop.set()


def _come(came: Came, seconds: float) -> Iterator[_Line]:
    """What has come, and what comes until there is nothing for so long. Raises what a listener has met."""
    while True:
        try:
            item = came.get(timeout=seconds)
        except queue.Empty:
            return
        if isinstance(item, PipelineError):
            raise item
        yield item


def _listen(lines: Iterator[_Line | None], came: Came, stop: threading.Event) -> None:
    try:
        for line in lines:
            if stop.is_set():
                return
            if line:
                _put(line, came, stop)
    except PipelineError as error:
        _put(error, came, stop)


def _put(item: _Line | PipelineError, came: Came, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            came.put(item, timeout=LOOK_SECONDS)
            return
        except queue.Full:
            pass


def _lines(job_id: str, name: str, prefixed: bool, query: LogQuery) -> Iterator[_Line | None]:
    for line in cluster().logs(job_id, query):
        if line is None:
            yield None
            continue
        source = "" if line.source == _ONLY_REPLICA else line.source
        prefix = "/".join(filter(None, (name if prefixed else "", source)))
        yield _Line(line.time, f"{prefix} | {line.text}" if prefix else line.text)


def _jobs(run_id: str, task: str | None) -> tuple[Mapping[str, str], Set[str], bool]:
    """The tasks' names by the IDs of their last jobs that have begun, in the order of the DAG; which of these have ended;
    whether the run has."""
    query = (
        select(Job.id, TaskRunRow.name, Job.finished_at)
        .join(TaskAttempt, TaskAttempt.job_id == Job.id)
        .join(TaskRunRow, queries.LATEST)
        .where(TaskRunRow.run_id == run_id, or_(Job.started_at.is_not(None), Job.finished_at.is_not(None)))
        .order_by(TaskRunRow.position)
    )
    if task is not None:
        query = query.where(TaskRunRow.key == identity(task))
    with transaction() as session:
        # In this order, no job is missing once the run has ended.
        over = session.scalar(select(RunRow.finished_at).where(RunRow.id == run_id)) is not None
        rows = session.execute(query).all()
    return {row.id: row.name for row in rows}, {row.id for row in rows if row.finished_at}, over
