"""The cursor: which stage a job has to pass next. `finish` writes the outcome of a claimed step and moves the cursor, in one
transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Interval, bindparam, func, select, update
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, log_lines, transaction
from pipeline_core.database.models import Job, JobDocument, Step, table
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.jobs import leases, lifecycle, rollup, trail_rows
from pipeline_core.jobs.leases import LeaseLost
from pipeline_core.settings import settings
from pipeline_core.stages.choice import next_of
from pipeline_core.stages.names import Stage, after
from pipeline_core.stages.outcomes import (
    Advance,
    ClaimedStep,
    Crash,
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
_DOCUMENT = table(JobDocument)

# Statements are built once: building one takes as long as executing it.
_HELD = (
    select(Job, Step.lease_owner)
    .join(Step, Step.job_id == Job.id)
    .where(Job.id == bindparam("of_job"), Job.epoch == bindparam("of_epoch"), Step.stage == bindparam("of_stage"))
    .with_for_update()
)
_MOVED = (
    update(_STEP)
    .where(_STEP.c.job_id == bindparam("of_job"))
    .values(
        stage=bindparam("to_stage"),
        pending_since=bindparam("since"),
        not_before=None,
        publish_count=0,
        crash_count=0,
        unreachable={},
    )
)
_MOVE = _MOVED.values(due_at=bindparam("due"), claim_count=0, lease_owner=None, lease_until=None)
_LEASE_END = func.now() + bindparam("lease", type_=Interval)
_MOVE_AND_CLAIM = _MOVED.values(due_at=_LEASE_END, claim_count=1, lease_until=_LEASE_END)


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
            return Continue(next_of(after(step.stage), plugins, step.kind, step.header))
        case Suspend():
            return Parked(step.epoch + 1, (step.stage, *after(step.stage)))
        case _:
            return Done()


@again_if_contended
def finish(step: ClaimedStep, outcome: Outcome, carries: Collection[Stage] = ()) -> Progress:
    """Write the outcome of a claimed step and move the cursor, in one transaction.

    If the next stage is one of those that its owner `carries` on with, the owner holds the next step too.

    Raises LeaseLost, and writes nothing, when this owner no longer holds the step; Unavailable.
    """
    # Without autoflush the job is written once, at the end, and not before each query.
    with transaction() as session, session.no_autoflush:
        job = _lock(session, step)
        trail_rows.write(session, step, getattr(outcome, "trail", ()))
        # Plugins may have been registered or removed since the step was claimed.
        plugins = snapshot.current(session) if isinstance(outcome, Advance) else step.plugins
        progress = progress_of(step, outcome, plugins)
        if isinstance(outcome, Advance) and isinstance(progress, Continue) and progress.stage in carries:
            progress = Continue(progress.stage, next_step(step, outcome, progress.stage, plugins))
        _write_outcome(session, job, step, outcome, progress)
        failpoints.reach(Point.STAGE_FINISHING, step.stage, step.name)
    return progress


def _lock(session: Session, step: ClaimedStep) -> Job:
    """The job and its step, both locked until the transaction ends. Raises LeaseLost when another owner has the step."""
    held = session.execute(_HELD, {"of_job": step.job_id, "of_epoch": step.epoch, "of_stage": step.stage}).one_or_none()
    if held is None or held.lease_owner != step.owner:
        raise LeaseLost(step.job_id)
    job: Job = held.Job
    return job


def _write_outcome(session: Session, job: Job, step: ClaimedStep, outcome: Outcome, progress: Progress) -> None:
    match outcome, progress:
        case Advance(), Continue(stage, claimed):
            _advance(session, job, outcome, stage, carried=claimed is not None)
        case Suspend(), _:
            _suspend(session, job, step, outcome)
        case Stop(), _:
            lifecycle.transition(session, job, JobState.STOPPED, reason=outcome.reason, header=step.header)
        case Fail(), _:
            lifecycle.transition(session, job, JobState.FAILED, reason=outcome.reason, header=step.header)
            if step.stage is Stage.LAUNCH:
                rollup.stop_replicas(session, job)
        case Postpone() | Crash(), _:
            _postpone(session, job, outcome)
        case NoPlace(), _:
            leases.give_back(session, step)
        case Launched(), _:
            _launched(session, job, step, outcome)


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


def _advance(session: Session, job: Job, outcome: Advance, stage: Stage, *, carried: bool) -> None:
    if outcome.taskset is not None or outcome.factors is not None:
        changed = {"taskset": outcome.taskset, "factors": outcome.factors}
        session.execute(
            update(_DOCUMENT)
            .where(_DOCUMENT.c.job_id == job.id)
            .values({name: value for name, value in changed.items() if value is not None})
        )
    if outcome.namespace is not None:
        job.namespace = outcome.namespace
    job.stage = stage
    job.reason = ""
    moment = now()
    moved: dict[str, Any] = {"of_job": job.id, "to_stage": stage, "since": moment}
    if carried:
        session.execute(_MOVE_AND_CLAIM, {**moved, "lease": timedelta(seconds=settings().lease_seconds)})
    else:
        session.execute(_MOVE, {**moved, "due": moment + timedelta(seconds=settings().wake_after_seconds)})


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
    job.reason = outcome.reason
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


def _launched(session: Session, job: Job, step: ClaimedStep, outcome: Launched) -> None:
    lifecycle.remove_step(session, job)
    job.cleanup_after = None
    job.stage = Stage.CLUSTER
    job.reason = ""
    job.last_observed_at = now()
    if step.attempt:
        rollup.delete_earlier_replicas(session, job)
    log_lines.note(session, "job launched", job_id=job.id, request_id=job.request_id, attempt=job.attempt)
    rollup.apply(session, job, step.taskset or {}, outcome.observation, header=step.header)


def _write_unreachable(unreachable: Mapping[str, Unreachable]) -> dict[str, Any]:
    return {key: {**asdict(value), "since": value.since.isoformat()} for key, value in unreachable.items()}
