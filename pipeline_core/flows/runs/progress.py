"""Advances a run: applies the changes of its jobs to it, and carries out the commands that follow.

All input is in the database: signals name the jobs of the run that have changed, and the jobs' rows have their states. So a
run may be advanced at any time, and by several workers at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable
from datetime import timedelta

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import RunRow, RunSignal, table
from pipeline_core.database.wakeups import RunDue
from pipeline_core.flows.runs import attempts, repository, run_definition, signalled
from pipeline_core.flows.runs.attempts import TaskOutput
from pipeline_core.flows.runs.repository import JobDetails
from pipeline_core.flows.runs.run_definition import RunDefinition
from pipeline_core.flows.runs.signalled import SignalledRun, TaskJob
from pipeline_core.flows.runs.state_machine import JobChanged, RunEvent, StartMore
from pipeline_core.jobs import results
from pipeline_core.settings import settings
from pipeline_core.states import JobState

BATCH = 20
"""Attempts that are processed before the signals are read again."""

_SIGNAL = table(RunSignal)


def advance(run_id: str, seconds: float = math.inf) -> bool:
    """Advance a run until there is nothing more to do now, or until it has taken so many seconds; whether there may be more.

    A worker that has changed the run reads the signals again before it ends, so others need not wait for it.
    Raises Unavailable, ClusterUnavailable.
    """
    until = time.monotonic() + seconds
    while run := signalled.read(run_id):
        applied = bool(run.signals) and _apply_signals(run, until)
        more = run.pending and attempts.process_pending(run_id, BATCH)
        if not (applied or more):
            return False
        if time.monotonic() >= until:
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


def _apply_signals(run: SignalledRun, until: float) -> bool:
    """Apply the states of the jobs with signals to the run, and submit jobs that follow; whether it was done.

    Collecting results may take long, so the run is not locked meanwhile. A job that has succeeded, and whose results there was no
    time to collect, keeps its signals.
    """
    collected: frozenset[str] = frozenset()
    if run.without_results:
        collected = results.collect_all(run.without_results, until)
        # What a cleanup has collected meanwhile is stored, too.
        read_again = signalled.read(run.columns["id"])
        if read_again is None:
            return False
        run = read_again
    return _write(run, collected)


@again_if_contended
def _write(run: SignalledRun, collected: Collection[str]) -> bool:
    """Write what the jobs' states change in the run, and store the first jobs that follow; False when another has changed the
    run, or holds its lock: that one reads the signals once more afterwards."""
    later = {job_id for job_id in run.without_results if job_id not in collected}
    applied = [job for job in run.jobs if job.id not in later]
    moment = now()
    with transaction() as session:
        outputs = _outputs(session, applied)
        definition = run_definition.definition(session, run.columns["id"])
        events: list[RunEvent] = [_event(job, outputs.get(job.id), definition) for job in applied]
        if run.start_more:
            events.append(StartMore())
        row = run.row()
        change = repository.change_of(session, row, events)
        jobs = {job.key: _details(job, outputs.get(job.id)) for job in applied}
        known = {key: details.output for key, details in jobs.items() if change.after.tasks[key].state.done}
        prepared = attempts.prepare_jobs(session, definition, change.to_submit[:BATCH], known)
        if not repository.write(
            session,
            row,
            change,
            moment,
            jobs=jobs,
            signals=[signal for signal, job_id in run.signals.items() if job_id not in later],
            submitted=attempts.submitted(prepared),
        ):
            return False
        for job in prepared.values():
            attempts.submit_prepared(session, definition, job)
        failpoints.reach(Point.RUN_ADVANCING, definition.flow.name)
    failpoints.reach(Point.RUN_ADVANCED, definition.flow.name)
    for job in prepared.values():
        failpoints.reach(Point.TASK_SUBMITTED, job.key.task)
    return True


def _outputs(session: Session, jobs: Iterable[TaskJob]) -> dict[str, TaskOutput]:
    """The outputs of those jobs that have succeeded."""
    stored = [job.id for job in jobs if job.has_results]
    found = results.read(session, stored) if stored else {}
    return {job.id: attempts.output_of(found.get(job.id, ())) for job in jobs if job.state is JobState.SUCCEEDED}


def _event(job: TaskJob, output: TaskOutput | None, run: RunDefinition) -> JobChanged:
    """What the job's state means for its task: failed, too, if its output is not valid, or is unknown and read by others."""
    problem = output.problem if output else ""
    if output and output.unknown and (readers := run.readers_of(job.key)):
        problem = f"its output is read by {', '.join(readers)} and could not be collected: {output.unknown}"
    if problem:
        return JobChanged(job.key, job.attempt, JobState.FAILED, problem, non_retryable=True)
    return JobChanged(job.key, job.attempt, job.state, job.reason, ending=job.ending)


def _details(job: TaskJob, output: TaskOutput | None) -> JobDetails:
    return JobDetails(started_at=job.started_at, finished_at=job.finished_at, output=output.text if output else None)
