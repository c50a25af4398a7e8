"""The cursor: which stage a job has to pass next, which worker holds that step (`claim`), and its outcome (`finish`).

A message is only a wake-up. The worker that receives it claims the step that the database says is pending; `finish` moves the
cursor in the transaction that writes the outcome, so that a message that is delivered twice or late finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Interval, Select, bindparam, case, func, insert, or_, select, update
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, log_lines, transaction, wakeups
from pipeline_core.database.models import Job, JobDocument, Registry, Step, TrailRow, table
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.jobs import lifecycle, rollup
from pipeline_core.settings import settings
from pipeline_core.stages.choice import next_of
from pipeline_core.stages.names import PLUGIN_TYPE, Stage, after
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
    TrailEntry,
    TrailOutcome,
    Unreachable,
)
from pipeline_core.stages.shares import Waiting
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


class LeaseLost(Exception):
    """The job was stopped, or another worker took the step over: this worker's outcome must not be written."""


@dataclass(frozen=True, slots=True)
class AlreadyAdvanced:
    """Not claimed: the cursor is past this stage already. The rest of the chain may continue."""


@dataclass(frozen=True, slots=True)
class NotOwner:
    """Not claimed: another worker holds the step, it is not due yet, or the message is of an older epoch. The chain ends."""


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


@again_if_contended
def claim(
    job_id: str, epoch: int, stage: Stage, owner: str, *, holder: str = ""
) -> ClaimedStep | AlreadyAdvanced | NotOwner:
    """Take the lease of a step for `owner`, a name that is unique to this call: from `holder` too, which hands it over without
    another claim being counted. Raises Unavailable."""
    with transaction() as session:
        row = session.execute(
            _claiming(stage),
            {
                "of_job": job_id,
                "of_epoch": epoch,
                "of_stage": stage,
                "owner": owner,
                "holder": holder,
                "lease": timedelta(seconds=settings().lease_seconds),
            },
        ).one_or_none()
        if row is None:
            pending = session.execute(select(Step.epoch, Step.stage).where(Step.job_id == job_id)).one_or_none()
            return why_not_claimed((pending.epoch, Stage(pending.stage)) if pending else None, epoch, stage)
        plugins = snapshot.at(session, row.version)
        has_plugins = stage in PLUGIN_TYPE and plugins.of(PLUGIN_TYPE[stage])
        return ClaimedStep(
            job_id=job_id,
            epoch=epoch,
            stage=stage,
            owner=owner,
            claim_count=row.claim_count,
            crash_count=row.crash_count,
            kind=row.kind,
            user_id=row.user_id,
            namespace=row.namespace,
            attempt=row.attempt,
            request_id=row.request_id,
            header=row.header,
            submitted=row.document if stage is Stage.TRANSLATE else None,
            taskset=None if stage is Stage.TRANSLATE else row.document,
            factors=row.factors,
            plugins=plugins,
            unreachable=_read_unreachable(row.unreachable),
            trail=_read_trail(session, job_id, stage) if has_plugins else (),
        )


@cache
def _claiming(stage: Stage) -> Select[Any]:
    """The statement that takes the lease of a step and reads all that its stage needs."""
    step = _STEP.c
    handed_over = step.lease_owner == bindparam("holder")
    claimed = (
        update(_STEP)
        .where(
            step.job_id == bindparam("of_job"),
            step.epoch == bindparam("of_epoch"),
            step.stage == bindparam("of_stage"),
            or_(step.lease_until.is_(None), step.lease_until < func.now(), handed_over),
            or_(step.not_before.is_(None), step.not_before <= func.now()),
        )
        .values(
            lease_owner=bindparam("owner"),
            lease_until=_LEASE_END,
            due_at=_LEASE_END,
            claim_count=step.claim_count + case((handed_over, 0), else_=1),
        )
        .returning(step.job_id, step.claim_count, step.crash_count, step.unreachable)
        .cte("claimed")
    )
    document = JobDocument.submitted if stage is Stage.TRANSLATE else JobDocument.taskset
    return (
        select(
            claimed.c.claim_count,
            claimed.c.crash_count,
            claimed.c.unreachable,
            Job.kind,
            Job.user_id,
            Job.namespace,
            Job.attempt,
            Job.request_id,
            JobDocument.header,
            JobDocument.factors,
            document.label("document"),
            select(Registry.version).scalar_subquery().label("version"),
        )
        .join(Job, Job.id == claimed.c.job_id)
        .join(JobDocument, JobDocument.job_id == claimed.c.job_id)
    )


def why_not_claimed(pending: tuple[int, Stage] | None, epoch: int, stage: Stage) -> AlreadyAdvanced | NotOwner:
    """Why the step of this epoch and stage could not be claimed; `pending` is the epoch and stage of the job's step."""
    if pending and pending[0] == epoch and pending[1] in after(stage):
        return AlreadyAdvanced()
    return NotOwner()


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
def renew(step: ClaimedStep, entries: Sequence[TrailEntry] = ()) -> None:
    """Renew the lease of a claimed step, and write the trail entries of its plugin calls so far.

    Raises LeaseLost, Unavailable.
    """
    with transaction() as session:
        lease_end = func.now() + timedelta(seconds=settings().lease_seconds)
        renewed = session.execute(
            update(Step)
            .where(Step.job_id == step.job_id, Step.epoch == step.epoch, Step.lease_owner == step.owner)
            .values(lease_until=lease_end, due_at=lease_end)
            .returning(Step.job_id)
        ).one_or_none()
        if renewed is None:
            raise LeaseLost(step.job_id)
        _write_trail(session, step, entries)


@again_if_contended
def renew_all(steps: Sequence[ClaimedStep]) -> None:
    """Renew the leases of these claimed steps, as far as their owners still hold them, by one statement. Raises Unavailable.

    A step that another transaction has locked, such as one that is being finished, is left to the next call: waiting for it
    would hold up the others.
    """
    lease_end = func.now() + timedelta(seconds=settings().lease_seconds)
    held = (
        select(Step.job_id)
        .where(Step.job_id.in_([step.job_id for step in steps]), Step.lease_owner.in_([step.owner for step in steps]))
        .with_for_update(skip_locked=True)
    ).cte("held")
    with transaction() as session:
        session.execute(
            update(Step)
            .where(Step.job_id.in_(select(held.c.job_id)))
            .values(lease_until=lease_end, due_at=lease_end)
            .execution_options(synchronize_session=False)
        )


@again_if_contended
def release(step: ClaimedStep) -> None:
    """Give a claimed step back as if it had not been claimed. Does nothing when this owner no longer holds it.

    Raises Unavailable.
    """
    with transaction() as session:
        _release(session, step)


@again_if_contended
def keep_waiting(steps: Sequence[Waiting]) -> list[Waiting]:
    """Move on the time at which a tick would publish these released steps: they wait in a worker that lives.

    Returns those that still wait; one that another transaction has locked does not count. Raises Unavailable.
    """
    due = func.now() + timedelta(seconds=settings().lease_seconds)
    pending = (
        select(Step.job_id, Step.epoch, Step.stage)
        .where(Step.job_id.in_([step.job_id for step in steps]), Step.lease_owner.is_(None))
        .with_for_update(skip_locked=True)
    ).cte("pending")
    with transaction() as session:
        rows = session.execute(
            update(Step)
            .where(Step.job_id.in_(select(pending.c.job_id)))
            .values(due_at=due)
            .returning(Step.job_id, Step.epoch, Step.stage)
            .execution_options(synchronize_session=False)
        ).all()
    return [step for step in (Waiting(row.job_id, row.epoch, Stage(row.stage)) for row in rows) if step in set(steps)]


@again_if_contended
def finish(step: ClaimedStep, outcome: Outcome, carries: Collection[Stage] = ()) -> Progress:
    """Write the outcome of a claimed step and move the cursor, in one transaction.

    If the next stage is one of those that its owner `carries` on with, the owner holds the next step too.

    Raises LeaseLost, and writes nothing, when this owner no longer holds the step; Unavailable.
    """
    # Without autoflush the job is written once, at the end, and not before each query.
    with transaction() as session, session.no_autoflush:
        job = _lock(session, step)
        _write_trail(session, step, getattr(outcome, "trail", ()))
        # Plugins may have been registered or removed since the step was claimed.
        plugins = snapshot.current(session) if isinstance(outcome, Advance) else step.plugins
        progress = progress_of(step, outcome, plugins)
        if isinstance(outcome, Advance) and isinstance(progress, Continue) and progress.stage in carries:
            progress = Continue(progress.stage, next_step(step, outcome, progress.stage, plugins))
        _write_outcome(session, job, step, outcome, progress)
        failpoints.reach(Point.STAGE_FINISHING, step.stage, step.name)
    return progress


def _release(session: Session, step: ClaimedStep) -> None:
    session.execute(
        update(_STEP)
        .where(_STEP.c.job_id == step.job_id, _STEP.c.epoch == step.epoch, _STEP.c.lease_owner == step.owner)
        .values(
            lease_owner=None,
            lease_until=None,
            due_at=func.now() + timedelta(seconds=settings().wake_after_seconds),
            claim_count=_STEP.c.claim_count - 1,
        )
    )


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
            _release(session, step)
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


def _read_trail(session: Session, job_id: str, stage: Stage) -> tuple[TrailEntry, ...]:
    rows = session.execute(
        select(TrailRow).where(TrailRow.job_id == job_id, TrailRow.stage == stage).order_by(TrailRow.id)
    ).scalars()
    return tuple(
        TrailEntry(
            plugin_key=row.plugin_key,
            outcome=TrailOutcome(row.outcome),
            started_at=row.started_at,
            call_number=row.call_number,
            attempts=row.attempts,
            duration_ms=row.duration_ms,
            decision=row.decision,
            reason=row.reason,
            factors=row.factors,
            patch=row.patch,
        )
        for row in rows
    )


def _write_trail(session: Session, step: ClaimedStep, entries: Sequence[TrailEntry]) -> None:
    if entries:
        of_step = {"job_id": step.job_id, "epoch": step.epoch, "stage": step.stage}
        session.execute(
            insert(TrailRow),
            [{**of_step, **{name: getattr(entry, name) for name in TrailEntry.__slots__}} for entry in entries],
        )


def _read_unreachable(raw: Mapping[str, Any]) -> dict[str, Unreachable]:
    return {
        key: Unreachable(**{**value, "since": datetime.fromisoformat(value["since"])}) for key, value in raw.items()
    }


def _write_unreachable(unreachable: Mapping[str, Unreachable]) -> dict[str, Any]:
    return {key: {**asdict(value), "since": value.since.isoformat()} for key, value in unreachable.items()}


@again_if_contended
def due_steps(limit: int) -> list[wakeups.StepDue]:
    """Steps that are due and that no message seems to be on its way for. Moves their `due_at` into the future.

    Covers lost messages, dead workers, and postponed plugin calls. Two sweeps at once get different rows (SKIP LOCKED).
    """
    wait = settings().wake_after_seconds
    due = (
        select(Step.job_id)
        .where(Step.due_at <= func.now())
        .order_by(Step.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).cte("due")
    with transaction() as session:
        rows = session.execute(
            update(Step)
            .where(Step.job_id.in_(select(due.c.job_id)))
            .values(
                publish_count=Step.publish_count + 1,
                # Exponential backoff: a backlog must not be multiplied by messages for the steps that wait in it.
                due_at=func.now() + timedelta(seconds=wait) * func.power(2, func.least(Step.publish_count, 5)),
            )
            .returning(Step.job_id, Step.epoch, Step.stage)
        ).all()
    return [wakeups.StepDue(row.job_id, row.epoch, row.stage) for row in rows]
