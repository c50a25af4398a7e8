"""The cursor: who may work on a job's stage (claim), and what comes of it (finish).

A message is only a wake-up call. Whoever gets one claims the step that the database says is owed; the finish moves
the cursor in the same transaction that writes what happened, so that a message that comes twice or late finds nothing
to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import Job, JobDocument, Step, TrailEntry, table
from pipeline_core.features import snapshot
from pipeline_core.jobs import lifecycle, rollup, steps
from pipeline_core.settings import settings
from pipeline_core.stages.choice import next_of
from pipeline_core.stages.order import PLUGIN_TYPE, Stage, after
from pipeline_core.stages.outcomes import (
    Advance,
    Claim,
    Entry,
    Fail,
    Launched,
    Outcome,
    Patience,
    Postpone,
    Stop,
    Suspend,
    TrailOutcome,
)
from pipeline_core.states import JobState

_STEP = table(Step)
_DOCUMENT = table(JobDocument)


class Refusal(Enum):
    """Why a step could not be claimed."""

    PAST = auto()
    """The cursor is beyond this stage already: the rest of the chain may go on."""
    VOID = auto()
    """Someone else holds it, it is not due yet, or the message is of an older epoch: this chain ends here."""


class LeaseLost(Exception):
    """Meanwhile the job was stopped, or someone else took the step over: what this worker did counts for nothing."""


@dataclass(frozen=True, slots=True)
class Goes:
    """The chain goes on at this stage."""

    stage: Stage


@dataclass(frozen=True, slots=True)
class Parked:
    """The job is suspended; `stages` remain, to be parked under `epoch`."""

    epoch: int
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Rests:
    """The chain ends here: the job is in the cluster, at its end, or waits for its step to fall due."""


Progress = Goes | Parked | Rests


@again_if_contended
def claim(job_id: str, epoch: int, stage: Stage, owner: str) -> Claim | Refusal:
    """Take the lease of a step for `owner`, a name that no other try has. Raises Unavailable."""
    with transaction() as session:
        row = session.execute(
            steps.claiming(stage),
            {
                "of_job": job_id,
                "of_epoch": epoch,
                "of_stage": stage,
                "owner": owner,
                "lease": timedelta(seconds=settings().lease_seconds),
            },
        ).one_or_none()
        if row is None:
            return _refusal(session, job_id, epoch, stage)
        plugins = snapshot.at(session, row.version)
        asks = stage in PLUGIN_TYPE and plugins.of(PLUGIN_TYPE[stage])
        return Claim(
            job_id=job_id,
            epoch=epoch,
            stage=stage,
            owner=owner,
            claims=row.claims,
            kind=row.kind,
            user_id=row.user_id,
            namespace=row.namespace,
            attempt=row.attempt,
            request_id=row.request_id,
            header=row.header,
            job=row.job,
            factors=row.factors,
            plugins=plugins,
            unreachable=_read_patience(row.unreachable),
            trail=_read_trail(session, job_id, stage) if asks else (),
        )


def _refusal(session: Session, job_id: str, epoch: int, stage: Stage) -> Refusal:
    owed = session.execute(select(Step.epoch, Step.stage).where(Step.job_id == job_id)).one_or_none()
    if owed and owed.epoch == epoch and Stage(owed.stage) in after(stage):
        return Refusal.PAST
    return Refusal.VOID


def _read_trail(session: Session, job_id: str, stage: Stage) -> tuple[Entry, ...]:
    rows = session.execute(
        select(TrailEntry).where(TrailEntry.job_id == job_id, TrailEntry.stage == stage).order_by(TrailEntry.id)
    ).scalars()
    return tuple(
        Entry(
            plugin_key=row.plugin_key,
            outcome=TrailOutcome(row.outcome),
            started_at=row.started_at,
            asking=row.asking,
            attempts=row.attempts,
            duration_ms=row.duration_ms,
            decision=row.decision,
            reason=row.reason,
            factors=row.factors,
            patch=row.patch,
        )
        for row in rows
    )


@again_if_contended
def renew(claim: Claim, entries: Sequence[Entry] = ()) -> None:
    """Write down what a half-done stage has learnt so far, and hold its lease anew. Raises LeaseLost, Unavailable."""
    with transaction() as session:
        lease_end = func.now() + timedelta(seconds=settings().lease_seconds)
        renewed = session.execute(
            update(Step)
            .where(Step.job_id == claim.job_id, Step.epoch == claim.epoch, Step.lease_owner == claim.owner)
            .values(lease_until=lease_end, due_at=lease_end)
            .returning(Step.job_id)
        ).one_or_none()
        if renewed is None:
            raise LeaseLost(claim.job_id)
        _write_trail(session, claim, entries)


@again_if_contended
def finish(claim: Claim, outcome: Outcome) -> Progress:
    """Write down what came of a claimed stage and move the cursor, in one transaction.

    Raises LeaseLost when the step is not this claim's any more, and then keeps nothing; Unavailable.
    """
    # The job is written once, at the end, whatever is read meanwhile.
    with transaction() as session, session.no_autoflush:
        job = _lock(session, claim)
        _write_trail(session, claim, getattr(outcome, "trail", ()))
        progress = _write_outcome(session, job, claim, outcome)
        failpoints.reach(Point.STAGE_FINISHING, claim.stage, claim.name)
    return progress


def _write_outcome(session: Session, job: Job, claim: Claim, outcome: Outcome) -> Progress:
    match outcome:
        case Advance():
            return _advance(session, job, claim, outcome)
        case Suspend():
            return _suspend(session, job, claim, outcome)
        case Stop():
            lifecycle.transition(session, job, JobState.STOPPED, reason=outcome.reason, header=claim.header)
        case Fail():
            lifecycle.transition(session, job, JobState.FAILED, reason=outcome.reason, header=claim.header)
        case Postpone():
            _postpone(session, job, outcome)
        case Launched():
            _launched(session, job, claim, outcome)
    return Rests()


def _lock(session: Session, claim: Claim) -> Job:
    """The job and its step, both locked until the transaction's end. Raises LeaseLost when the step is not the claim's."""
    held = session.execute(
        steps.HELD, {"of_job": claim.job_id, "of_epoch": claim.epoch, "of_stage": claim.stage}
    ).one_or_none()
    if held is None or held.lease_owner != claim.owner:
        raise LeaseLost(claim.job_id)
    job: Job = held.Job
    return job


def _write_trail(session: Session, claim: Claim, entries: Sequence[Entry]) -> None:
    if not entries:
        return
    session.execute(
        insert(TrailEntry),
        [
            {
                "job_id": claim.job_id,
                "epoch": claim.epoch,
                "stage": claim.stage,
                "plugin_key": entry.plugin_key,
                "outcome": entry.outcome,
                "started_at": entry.started_at,
                "asking": entry.asking,
                "attempts": entry.attempts,
                "duration_ms": entry.duration_ms,
                "decision": entry.decision,
                "reason": entry.reason,
                "factors": entry.factors,
                "patch": entry.patch,
            }
            for entry in entries
        ],
    )


def _advance(session: Session, job: Job, claim: Claim, outcome: Advance) -> Goes:
    stage = next_of(after(claim.stage), snapshot.current(session), claim.kind, claim.header)
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
    due = moment + timedelta(seconds=settings().wake_after_seconds)
    session.execute(steps.MOVE, {"of_job": job.id, "to_stage": stage, "since": moment, "due": due})
    return Goes(stage)


def _suspend(session: Session, job: Job, claim: Claim, outcome: Suspend) -> Parked:
    moment = now()
    job.suspended_by = outcome.plugin_key
    job.on_timeout = outcome.on_timeout
    if outcome.seconds is not None:
        job.suspended_until = moment + timedelta(seconds=outcome.seconds)
    lifecycle.end_step(session, job)
    lifecycle.transition(session, job, JobState.SUSPENDED, reason=outcome.reason, header=claim.header, moment=moment)
    return Parked(job.epoch, (claim.stage, *after(claim.stage)))


def _postpone(session: Session, job: Job, outcome: Postpone) -> None:
    job.reason = outcome.reason
    due = now() + timedelta(seconds=outcome.seconds)
    session.execute(
        update(_STEP)
        .where(_STEP.c.job_id == job.id)
        .values(
            due_at=due,
            not_before=due,
            sends=0,
            claims=0,
            lease_owner=None,
            lease_until=None,
            unreachable=_write_patience(outcome.unreachable),
        )
    )


def _launched(session: Session, job: Job, claim: Claim, outcome: Launched) -> None:
    lifecycle.end_step(session, job)
    job.cleanup_after = None
    job.stage = Stage.CLUSTER
    job.reason = ""
    job.heard_at = now()
    if claim.attempt:
        rollup.forget_replicas(session, job)
    rollup.apply(session, job, claim.job or {}, outcome.observation, header=claim.header)


def _read_patience(raw: Mapping[str, Any]) -> dict[str, Patience]:
    return {
        key: Patience(since=datetime.fromisoformat(value["since"]), attempts=value["attempts"], rounds=value["rounds"])
        for key, value in raw.items()
    }


def _write_patience(unreachable: Mapping[str, Patience]) -> dict[str, Any]:
    return {
        key: {"since": patience.since.isoformat(), "attempts": patience.attempts, "rounds": patience.rounds}
        for key, patience in unreachable.items()
    }


@again_if_contended
def due_steps(limit: int) -> list[wakeups.StepDue]:
    """Steps that are owed and that no message seems to be under way for, their next look put off.

    Lost messages, dead workers, and plugins that are to be asked again all end here. Two sweeps at once share the rows.
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
                sends=Step.sends + 1,
                # Each time a little later: a backlog must not be multiplied by those who wait in it.
                due_at=func.now() + timedelta(seconds=wait) * func.power(2, func.least(Step.sends, 5)),
            )
            .returning(Step.job_id, Step.epoch, Step.stage)
        ).all()
    return [wakeups.StepDue(row.job_id, row.epoch, row.stage) for row in rows]
