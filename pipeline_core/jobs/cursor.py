"""The cursor: which stage a job has to pass next. `finish` writes the outcome of a claimed step and moves the cursor, in one
transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

import structlog
from sqlalchemy import update
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints, tracing
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, log_lines, transaction
from pipeline_core.database.models import Job, Step, table
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.jobs import advancing, feed_changes, leases, lifecycle, rollup
from pipeline_core.jobs.changes import Changes, LockNeeded, as_claimed, locked
from pipeline_core.jobs.leases import LeaseLost
from pipeline_core.stages.choice import next_of
from pipeline_core.stages.names import Stage, after
from pipeline_core.stages.outcomes import (
    Advance,
    ClaimedStep,
    Crash,
    Ending,
    Fail,
    Launched,
    NoPlace,
    Outcome,
    Postpone,
    Stop,
    Suspend,
    Unreachable,
)
from pipeline_core.states import JobState

_STEP = table(Step)


@dataclass(frozen=True, slots=True)
class Continue:
    """The chain continues with this stage. `claimed` is its step if the owner holds that already."""

    stage: Stage
    claimed: ClaimedStep | None = None


@dataclass(frozen=True, slots=True)
class Parked:
    """The job is suspended; `stages` is the rest of the chain, to be parked under `epoch`."""

    epoch: int
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The chain ends: the job is in the cluster or has ended, or its step waits until it is due again."""


Progress = Continue | Parked | Done


def progress_of(step: ClaimedStep, outcome: Outcome, plugins: Snapshot) -> Progress:
    """How the chain of a job continues after this outcome of its step, with these plugins registered."""
    match outcome:
        case Advance():
            return Continue(_stage_after(step, plugins))
        case Suspend():
            return Parked(step.epoch + 1, (step.stage, *after(step.stage)))
        case _:
            return Done()


def _stage_after(step: ClaimedStep, plugins: Snapshot) -> Stage:
    return next_of(after(step.stage), plugins, step.kind, step.header)


@dataclass(frozen=True, slots=True)
class Finished:
    """A claimed step with its outcome, by which its job does not go on to another stage."""

    step: ClaimedStep
    outcome: Ending


def finish(step: ClaimedStep, outcome: Outcome, carries: Collection[Stage] = ()) -> Progress:
    """Write the outcome of a claimed step and move the cursor, in one transaction.

    If the next stage is one of those that its owner `carries` on with, the owner holds the next step too.

    Raises LeaseLost, and writes nothing, when this owner no longer holds the step; Unavailable.
    """
    if isinstance(outcome, Advance):
        return _advance(step, outcome, carries)
    (progress,) = _finish([Finished(step, outcome)], wait=True)
    if progress is None:
        raise LeaseLost(step.job_id)
    return progress


def finish_together(finished: Sequence[Finished]) -> list[Progress | None]:
    """Write these outcomes in one transaction. None stands for a step of which nothing is written, to be finished by itself:
    another transaction has locked it, or its owner no longer holds it. Raises Unavailable."""
    return _finish(finished, wait=False)


@again_if_contended
def _advance(step: ClaimedStep, outcome: Advance, carries: Collection[Stage]) -> Progress:
    plugins = step.plugins
    while True:
        stage = _stage_after(step, plugins)
        claimed = next_step(step, outcome, stage, plugins) if stage in carries else None
        failpoints.reach(Point.STAGE_FINISHING, step.stage, step.name)
        if advancing.write(step, outcome, stage, plugins.version, carried=claimed is not None):
            return Continue(stage, claimed)
        # Plugins were registered or removed since the step was claimed, or it is held no longer.
        plugins = _plugins_now(step)


def _plugins_now(step: ClaimedStep) -> Snapshot:
    """The plugins that are registered now. Raises LeaseLost when the owner no longer holds the step."""
    with transaction() as session, locked(session, [step], wait=True) as changes:
        if not changes.holds(step):
            raise LeaseLost(step.job_id)
        return changes.plugins


def _finish(finished: Sequence[Finished], *, wait: bool) -> list[Progress | None]:
    written = _finish_first_launches([each for each in finished if _is_first_launch(each)])
    if rest := [each for each in finished if each.step.owner not in written]:
        written |= _finish_locked(rest, wait=wait)
    return [written.get(each.step.owner) for each in finished]


def _is_first_launch(finished: Finished) -> bool:
    """Whether the job was launched, and its step has all that is known of it in the cluster: nothing."""
    step = finished.step
    return isinstance(finished.outcome, Launched) and not step.attempt and not step.observed


@again_if_contended
def _finish_first_launches(finished: Sequence[Finished]) -> dict[str, Progress]:
    """Write these launches by one statement, without reading anything before. Returns their progress by the owner of the step;
    nothing if they are not written."""
    if not finished:
        return {}
    plugins = max((each.step.plugins for each in finished), key=lambda plugins: plugins.version)
    try:
        with (
            transaction() as session,
            session.no_autoflush,
            as_claimed(session, [each.step for each in finished], plugins) as changes,
        ):
            _gather(session, changes, finished)
            for each in finished:
                failpoints.reach(Point.STAGE_FINISHING, each.step.stage, each.step.name)
            changes.write_as_claimed(session)
    except LockNeeded:
        return {}
    return {each.step.owner: Done() for each in finished}


@again_if_contended
def _finish_locked(finished: Sequence[Finished], *, wait: bool) -> dict[str, Progress]:
    """Lock the jobs and write these outcomes. Returns the progress of those that are written, by the owner of the step."""
    # Without autoflush nothing is looked for in the session before each query: no job is an object of it.
    steps = [each.step for each in finished]
    with transaction() as session, session.no_autoflush, locked(session, steps, wait=wait) as changes:
        held = [each for each in finished if changes.holds(each.step)]
        _gather(session, changes, held)
        changes.write(session)
        for each in held:
            failpoints.reach(Point.STAGE_FINISHING, each.step.stage, each.step.name)
    return {each.step.owner: progress_of(each.step, each.outcome, changes.plugins) for each in held}


def _gather(session: Session, changes: Changes, finished: Sequence[Finished]) -> None:
    launched: list[rollup.Observed] = []
    for each in finished:
        step, outcome, job = each.step, each.outcome, changes.jobs[each.step.job_id]
        with structlog.contextvars.bound_contextvars(**log_context(step)):
            changes.write_trail(step, getattr(outcome, "trail", ()))
            _write_outcome(session, job, step, outcome)
        if isinstance(outcome, Launched):
            launched.append(rollup.Observed(job, step.taskset or {}, outcome.observation, step.header))
    if launched:
        rollup.apply(session, launched, are_first=not changes.are_locked)


def log_context(step: ClaimedStep) -> dict[str, Any]:
    """The fields of each log line about a claimed step."""
    named = {"job_id": step.job_id, "stage": str(step.stage), "epoch": step.epoch, "request_id": step.request_id}
    return {**named, **tracing.log_fields(step.traceparent)}


def _write_outcome(session: Session, job: Job, step: ClaimedStep, outcome: Ending) -> None:
    match outcome:
        case Suspend():
            _suspend(session, job, step, outcome)
        case Stop():
            lifecycle.transition(session, job, JobState.STOPPED, reason=outcome.reason, header=step.header)
        case Fail():
            lifecycle.transition(session, job, JobState.FAILED, reason=outcome.reason, header=step.header)
            if step.stage is Stage.LAUNCH:
                rollup.stop_replicas(session, job)
        case Postpone() | Crash():
            _postpone(session, job, outcome)
        case NoPlace():
            leases.give_back(session, step.job_id, step.epoch, step.owner)
        case Launched():
            _launched(session, job)


def next_step(step: ClaimedStep, outcome: Advance, stage: Stage, plugins: Snapshot) -> ClaimedStep | None:
    """The step of the stage that follows, as a claim would read it; None if there is no TaskSet to work on."""
    taskset = outcome.taskset if outcome.taskset is not None else step.taskset
    if taskset is None:
        return None
    return replace(
        step,
        stage=stage,
        claim_count=1,
        crash_count=0,
        namespace=step.namespace if outcome.namespace is None else outcome.namespace,
        submitted=None,
        taskset=taskset,
        factors=step.factors if outcome.factors is None else outcome.factors,
        plugins=plugins,
        unreachable={},
        trail=(),
    )


def _suspend(session: Session, job: Job, step: ClaimedStep, outcome: Suspend) -> None:
    moment = now()
    job.suspended_by = outcome.plugin_key
    job.on_timeout = outcome.on_timeout
    job.resumer = outcome.resumer
    if outcome.seconds is not None:
        job.suspended_until = moment + timedelta(seconds=outcome.seconds)
    lifecycle.remove_step(session, job)
    lifecycle.transition(session, job, JobState.SUSPENDED, reason=outcome.reason, header=step.header, moment=moment)


def _postpone(session: Session, job: Job, outcome: Postpone | Crash) -> None:
    if job.reason != outcome.reason:
        job.reason = outcome.reason
        feed_changes.note_stage(session, job, now())
    again = {"reason": outcome.reason, "stage": str(job.stage), "seconds": outcome.seconds}
    log_lines.note(session, "stage postponed", job_id=job.id, request_id=job.request_id, **again)
    due = now() + timedelta(seconds=outcome.seconds)
    released: dict[str, Any] = {
        "due_at": due,
        "not_before": due,
        "publish_count": 0,
        "claim_count": 0,
        "lease_owner": None,
        "lease_until": None,
    }
    if isinstance(outcome, Crash):
        released |= {"crash_count": _STEP.c.crash_count + 1}
    else:
        released |= {"crash_count": 0, "unreachable": _write_unreachable(outcome.unreachable)}
    session.execute(update(_STEP).where(_STEP.c.job_id == job.id).values(released))


def _launched(session: Session, job: Job) -> None:
    lifecycle.remove_step(session, job)
    job.cleanup_after = None
    job.stage = Stage.CLUSTER
    job.reason = ""
    job.last_observed_at = now()
    feed_changes.note_stage(session, job, job.last_observed_at)
    if job.attempt:
        rollup.delete_earlier_replicas(session, job)
    log_lines.note(session, "job launched", job_id=job.id, request_id=job.request_id, attempt=job.attempt)


def _write_unreachable(unreachable: Mapping[str, Unreachable]) -> dict[str, Any]:
    return {key: {**asdict(value), "since": value.since.isoformat()} for key, value in unreachable.items()}
