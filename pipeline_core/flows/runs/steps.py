"""The engine's step: what the jobs of a run have come to is taken in, and what follows is carried out.

A step is short, may be taken twice or by several at once, and finds in the database what there is to do: signals say
which jobs of the run have changed, and the jobs themselves say how they stand now.
"""

from __future__ import annotations

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
from pipeline_core.flows.runs import attempts, outputs, repository, run_definition
from pipeline_core.flows.runs.engine import JobChanged
from pipeline_core.flows.runs.outputs import Output
from pipeline_core.flows.runs.repository import Facts
from pipeline_core.settings import settings
from pipeline_core.states import JobState

AT_ONCE = 50
"""Attempts that are carried out until the next look at what has happened meanwhile."""

_SIGNAL, _JOB, _ATTEMPT = table(RunSignal), table(Job), table(TaskAttempt)
_SIGNALS = (
    select(_SIGNAL.c.id, _SIGNAL.c.job_id, _JOB.c.state)
    .outerjoin(_JOB, _JOB.c.id == _SIGNAL.c.job_id)
    .where(_SIGNAL.c.run_id == bindparam("run_id"))
    .order_by(_SIGNAL.c.id)
    .limit(1000)
)
_SEEN = delete(_SIGNAL).where(_SIGNAL.c.id.in_(bindparam("ids", expanding=True)))
_Standing = Row[Any, Any, Any, Any, Any, Any, Any]
_STANDING = (
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


def advance(run_id: str) -> None:
    """Go on with a run until nothing is left to be done now. Raises Unavailable, ClusterUnavailable.

    Another one at work on the run looks again before it ends, so that nobody waits for it.
    """
    more = True
    while _step(run_id) or more:
        more = attempts.carry_out(run_id, AT_ONCE)


@again_if_contended
def _step(run_id: str) -> bool:
    """Take in what is known by now; whether that was anything."""
    found = _read_outputs(run_id)
    if found is None:
        return False
    with transaction() as session:
        run = repository.lock_if_free(session, run_id)
        if run is None:
            return False
        seen = session.execute(_SIGNALS, {"run_id": run_id}).all()
        if not seen:
            return False
        jobs = _standing(session, {signal.job_id for signal in seen})
        # What has succeeded since is looked at in the next step, when its output has been read.
        later = {job.id for job in jobs if job.state == JobState.SUCCEEDED and job.id not in found}
        taken = [job for job in jobs if job.id not in later]
        session.execute(_SEEN, {"ids": [signal.id for signal in seen if signal.job_id not in later]})
        repository.apply_events(
            session,
            run,
            [_event(job, found.get(job.id)) for job in taken],
            now(),
            known={job.key: _facts(job, found.get(job.id)) for job in taken},
        )
        name = run_definition.definition(session, run_id).flow.name
        failpoints.reach(Point.RUN_ADVANCING, name)
    failpoints.reach(Point.RUN_ADVANCED, name)
    return True


def _read_outputs(run_id: str) -> dict[str, Output] | None:
    """What the jobs have written that are known to have succeeded: that takes long, and is done while nobody waits.

    None when no job has changed.
    """
    with transaction() as session:
        changed = session.execute(_SIGNALS, {"run_id": run_id}).all()
    succeeded = dict.fromkeys(signal.job_id for signal in changed if signal.state == JobState.SUCCEEDED)
    return {job_id: outputs.read(job_id) for job_id in succeeded} if changed else None


def _standing(session: Session, job_ids: Collection[str]) -> Sequence[_Standing]:
    return session.execute(_STANDING, {"job_ids": list(job_ids)}).all()


def _event(job: _Standing, output: Output | None) -> JobChanged:
    if output and output.problem:
        return JobChanged(job.key, job.attempt, JobState.FAILED, output.problem, non_retryable=True)
    return JobChanged(job.key, job.attempt, JobState(job.state), job.reason)


def _facts(job: _Standing, output: Output | None) -> Facts:
    return Facts(started_at=job.started_at, finished_at=job.finished_at, output=output.text if output else None)


def unheard(limit: int) -> list[RunDue]:
    """Runs with signals that nobody has looked at for a while. Raises Unavailable.

    Signals of runs that are no more are deleted.
    """
    before = now() - timedelta(seconds=settings().wake_after_seconds)
    oldest = select(_SIGNAL.c.id).where(_SIGNAL.c.at < before).order_by(_SIGNAL.c.id).limit(limit).cte("oldest")
    with transaction() as session:
        session.execute(
            delete(_SIGNAL).where(_SIGNAL.c.id == oldest.c.id, ~exists().where(RunRow.id == _SIGNAL.c.run_id))
        )
        left = session.scalars(select(_SIGNAL.c.run_id).join(oldest, oldest.c.id == _SIGNAL.c.id))
        return [RunDue(run_id) for run_id in dict.fromkeys(left)]
