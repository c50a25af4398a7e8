"""Changing a job's state: the one place where states change, events are written and deliveries come into being."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.orm import Session

from pipeline_core.common.clock import now
from pipeline_core.database import rows, wakeups
from pipeline_core.database.models import (
    Cleanup,
    Event,
    Job,
    JobDocument,
    Registry,
    RunSignal,
    Step,
    table,
)
from pipeline_core.errors import NotFound
from pipeline_core.features import snapshot
from pipeline_core.hooks import owing
from pipeline_core.plugins.types import PluginType
from pipeline_core.settings import settings
from pipeline_core.stages.order import Stage
from pipeline_core.states import TRANSITIONS, JobState
from pipeline_core.validation.texts import shown

_STEP = table(Step)
_WRITTEN = (table(Event).c.id, select(table(Registry).c.version).scalar_subquery())
"""The event's ID, and the version of the registry whose subscribers are to be told of it."""
_INSERT_EVENT = insert(table(Event)).returning(*_WRITTEN)
_BEGIN = (
    rows.inserting(Event)
    .returning(*_WRITTEN)
    .add_cte(*(rows.inserting(model).cte(model.__tablename__) for model in (Job, JobDocument, Step)))
)
_INSERT_STEP = insert(_STEP)
_LOCK = select(Job).where(Job.id == bindparam("of_job")).with_for_update(key_share=True)
_END_STEP = delete(_STEP).where(_STEP.c.job_id == bindparam("of_job")).returning(_STEP.c.stage, _STEP.c.lease_until)
_INSERT_SIGNAL = insert(table(RunSignal))

REACHES_CLUSTER = (Stage.LAUNCH, Stage.CLUSTER)


def lock(session: Session, job_id: str) -> Job:
    """The job, locked until the transaction's end. Every change of a job begins with this.

    Rows that only refer to the job can be written meanwhile: a worker that holds its step and writes its trail must not
    wait for one that holds the job and waits for the step. Raises NotFound when there is no such job.
    """
    job = session.execute(_LOCK, {"of_job": job_id}).scalar_one_or_none()
    if job is None:
        raise NotFound(f"There is no job {shown(job_id)}.")
    return job


def header_of(session: Session, job_id: str) -> Mapping[str, Any]:
    """The job's header."""
    return session.execute(select(JobDocument.header).where(JobDocument.job_id == job_id)).scalar_one()  # type: ignore[no-any-return]


def begin(
    session: Session, values: Mapping[str, Any], document: Mapping[str, Any], *, actor: str, moment: datetime
) -> None:
    """Store a new job with its document, its first event and the step that it owes, by one statement.

    Both are values by column, as far as they are not the defaults; `document` needs no `job_id`.
    """
    values = {**values, "epoch": 0, "event_sequence": 1}
    job = Job(**values)
    event_id, version = session.execute(
        _BEGIN,
        rows.parameters(Job, values)
        | rows.parameters(JobDocument, {**document, "job_id": job.id})
        | rows.parameters(Step, _step(job, Stage(job.stage), moment))
        | rows.parameters(Event, _event(job, previous="", actor=actor, moment=moment)),
    ).one()
    _deliver(session, job, document["header"], event_id, version, moment)


def owe_step(session: Session, job: Job, stage: Stage, moment: datetime, *, delay: float | None = None) -> None:
    """The job owes this stage: whoever loses the wake-up call, a sweep will find the row.

    With a `delay`, in seconds, nobody is called for it, and nobody may take it before.
    """
    session.execute(_INSERT_STEP, _step(job, stage, moment, delay))


def _step(job: Job, stage: Stage, moment: datetime, delay: float | None = None) -> dict[str, Any]:
    not_before = None if delay is None else moment + timedelta(seconds=delay)
    return {
        "job_id": job.id,
        "epoch": job.epoch,
        "stage": stage,
        "owed_since": moment,
        "due_at": not_before or moment + timedelta(seconds=settings().wake_after_seconds),
        "not_before": not_before,
        "unreachable": {},
    }


def transition(
    session: Session,
    job: Job,
    to: JobState,
    *,
    reason: str,
    header: Mapping[str, Any] | None = None,
    actor: str = "",
    moment: datetime | None = None,
) -> None:
    """Change the state of a locked job, with all that goes with it in the same transaction.

    A final state takes away the step that was owed, voids every older message by the epoch, and asks for the cluster
    to be cleaned up where the job may have reached it. The run of a flow that the job belongs to is told. Raises
    ValueError for a change that no rule allows.
    """
    moment = moment or now()
    previous = JobState(job.state)
    if to not in TRANSITIONS[previous]:
        raise ValueError(f"a job never changes from {previous} to {to}")
    job.state = to
    job.reason = reason
    if to is JobState.SUSPENDED:
        job.suspended_at = moment
    elif previous is JobState.SUSPENDED:
        job.suspended_at, job.suspended_until, job.suspended_by, job.on_timeout = None, None, "", ""
    if to is JobState.RUNNING and job.started_at is None:
        job.started_at = moment
    if to.final:
        job.finished_at = moment
        end_step(session, job)
        if job.stage in REACHES_CLUSTER:
            job.cleanup = Cleanup.PENDING
    job.event_sequence += 1
    _record_event(session, job, header, previous=previous, actor=actor, moment=moment)
    if job.run_id:
        session.execute(_INSERT_SIGNAL, {"run_id": job.run_id, "job_id": job.id, "at": moment})
        wakeups.after_commit(session, wakeups.RunDue(job.run_id))


def end_step(session: Session, job: Job) -> None:
    """The job owes nothing any more, and whatever is still under way for it is void.

    In the cluster it owes none already. A launch under way may yet put something there, until its lease ends; cleaning
    up waits for that.
    """
    job.epoch += 1
    if job.stage == Stage.CLUSTER:
        return
    gone = session.execute(_END_STEP, {"of_job": job.id}).one_or_none()
    if gone and gone.stage == Stage.LAUNCH:
        job.cleanup_after = gone.lease_until


def _record_event(
    session: Session,
    job: Job,
    header: Mapping[str, Any] | None,
    *,
    previous: str,
    actor: str,
    moment: datetime,
) -> None:
    """Write the event of the job's present state and sequence, and a delivery for each subscriber that matches at this moment."""
    event = _event(job, previous=previous, actor=actor, moment=moment)
    event_id, version = session.execute(_INSERT_EVENT, event).one()
    _deliver(session, job, header, event_id, version, moment)


def _event(job: Job, *, previous: str, actor: str, moment: datetime) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "sequence": job.event_sequence,
        "state": job.state,
        "previous_state": previous,
        "reason": job.reason,
        "actor": actor,
        "occurred_at": moment,
    }


def _deliver(
    session: Session, job: Job, header: Mapping[str, Any] | None, event_id: int, version: int, moment: datetime
) -> None:
    plugins = snapshot.at(session, version)
    if not plugins.of(PluginType.LIFE_HOOK):
        return
    for plugin in plugins.subscribers(header or header_of(session, job.id), JobState(job.state)):
        owing.owe(session, job.id, job.event_sequence, plugin.key, moment, event_id=event_id)
