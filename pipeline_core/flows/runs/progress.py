"""Advances a run: applies the changes of its jobs to it, and carries out the commands that follow.

All input is in the database: signals name the jobs of the run that have changed, and the jobs' rows have their states. So a
run may be advanced at any time, and by several workers at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, bindparam, delete, exists, select
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Job, RunRow, RunSignal, TaskAttempt, table
from pipeline_core.database.wakeups import RunDue
from pipeline_core.flows.runs import attempts, repository, run_definition
from pipeline_core.flows.runs.attempts import TaskOutput
from pipeline_core.flows.runs.repository import JobDetails
from pipeline_core.flows.runs.run_definition import RunDefinition
from pipeline_core.flows.runs.state_machine import JobChanged
from pipeline_core.settings import settings
from pipeline_core.states import JobState

BATCH = 20
"""Pending attempts that are processed before the signals are read again."""

_SIGNAL, _JOB, _ATTEMPT = table(RunSignal), table(Job), table(TaskAttempt)
_SIGNALS = (
    select(_SIGNAL.c.id, _SIGNAL.c.job_id, _JOB.c.state)
    .outerjoin(_JOB, _JOB.c.id == _SIGNAL.c.job_id)
    .where(_SIGNAL.c.run_id == bindparam("run_id"))
    .order_by(_SIGNAL.c.id)
    .limit(500)
)
_DELETE_SIGNALS = delete(_SIGNAL).where(_SIGNAL.c.id.in_(bindparam("ids", expanding=True)))
_TaskJob = Row[Any, Any, Any, Any, Any, Any, Any]
_TASK_JOBS = (
    select(
        _ATTEMPT.c.key,
        _ATTEMPT.c.attempt,
        _JOB.c.id,
        _JOB.c.state,
        _JOB.c.reason,
        _JOB.c.started_at,
        _JOB.c.finished_at,
    )
    .join(_JOB, _JOB.c.id == _ATTEMPT.c.job_id)
    .where(_JOB.c.id.in_(bindparam("job_ids", expanding=True)))
    .order_by(_JOB.c.finished_at, _ATTEMPT.c.key)
)


def advance(run_id: str, seconds: float = math.inf) -> bool:
    """Advance a run until there is nothing more to do now, or until it has taken so many seconds; whether there may be more.

    A worker that holds the run's lock reads the signals again before it ends, so others need not wait for the lock.
    Raises Unavailable, ClusterUnavailable.
    """
    until = time.monotonic() + seconds
    more = True
    while (signalled := _apply_signals(run_id, until)) or more:
        more = attempts.process_pending(run_id, BATCH)
        if (signalled or more) and time.monotonic() >= until:
            return True
    return False


def stale_signals(limit: int) -> list[RunDue]:
    """Wake-ups for runs with signals that nobody has applied for a while. Raises Unavailable.

    Signals of runs that were deleted are deleted.
    """
    before = now() - timedelta(seconds=settings().wake_after_seconds)
    oldest = select(_SIGNAL.c.id).where(_SIGNAL.c.at < before).order_by(_SIGNAL.c.id).limit(limit).cte("oldest")
    with transaction() as session:
        session.execute(
            delete(_SIGNAL).where(_SIGNAL.c.id == oldest.c.id, ~exists().where(RunRow.id == _SIGNAL.c.run_id))
        )
        left = session.scalars(select(_SIGNAL.c.run_id).join(oldest, oldest.c.id == _SIGNAL.c.id))
        return [RunDue(run_id) for run_id in dict.fromkeys(left)]


@again_if_contended
def _apply_signals(run_id: str, until: float) -> bool:
    """Apply the present states of the jobs with signals to the run; whether there were any signals."""
    outputs = _collect_outputs(run_id, until)
    if outputs is None:
        return False
    with transaction() as session:
        run = repository.lock_if_free(session, run_id)
        if run is None:
            return False
        signals = session.execute(_SIGNALS, {"run_id": run_id}).all()
        if not signals:
            return False
        jobs = _task_jobs(session, {signal.job_id for signal in signals})
        # A job that has succeeded since is applied by the next call, after its output has been collected.
        later = {job.id for job in jobs if job.state == JobState.SUCCEEDED and job.id not in outputs}
        applied = [job for job in jobs if job.id not in later]
        session.execute(_DELETE_SIGNALS, {"ids": [signal.id for signal in signals if signal.job_id not in later]})
        definition = run_definition.definition(session, run_id)
        repository.apply_events(
            session,
            run,
            [_event(job, outputs.get(job.id), definition) for job in applied],
            now(),
            jobs={job.key: _details(job, outputs.get(job.id)) for job in applied},
        )
        name = definition.flow.name
        failpoints.reach(Point.RUN_ADVANCING, name)
    failpoints.reach(Point.RUN_ADVANCED, name)
    return True


def _collect_outputs(run_id: str, until: float) -> dict[str, TaskOutput] | None:
    """The outputs of the jobs with signals that have succeeded, as far as there is time; None when there are no signals.

    Collecting may take long, so the run is not locked meanwhile.
    """
    with transaction() as session:
        signals = session.execute(_SIGNALS, {"run_id": run_id}).all()
    succeeded = dict.fromkeys(signal.job_id for signal in signals if signal.state == JobState.SUCCEEDED)
    return attempts.collect_outputs(succeeded, until) if signals else None


def _task_jobs(session: Session, job_ids: Collection[str]) -> Sequence[_TaskJob]:
    return session.execute(_TASK_JOBS, {"job_ids": list(job_ids)}).all()


def _event(job: _TaskJob, output: TaskOutput | None, run: RunDefinition) -> JobChanged:
    """What the job's state means for its task: failed, too, if its output is not valid, or is unknown and read by others."""
    problem = output.problem if output else ""
    if output and output.unknown and (readers := run.readers_of(job.key)):
        problem = f"its output is read by {', '.join(readers)} and could not be collected: {output.unknown}"
    if problem:
        return JobChanged(job.key, job.attempt, JobState.FAILED, problem, non_retryable=True)
    return JobChanged(job.key, job.attempt, JobState(job.state), job.reason)


def _details(job: _TaskJob, output: TaskOutput | None) -> JobDetails:
    return JobDetails(started_at=job.started_at, finished_at=job.finished_at, output=output.text if output else None)
