"""Change a job's state: the only module that decides a change, its event and the deliveries of that; `changes` may gather and
write them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.orm import Session

from pipeline_core.common import tracing
from pipeline_core.common.clock import now
from pipeline_core.database import log_lines, rows, wakeups
from pipeline_core.database.models import Cleanup, Event, Job, JobDocument, Registry, Step, table
from pipeline_core.database.prepared import Prepared
from pipeline_core.errors import NotFound
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.hooks import deliveries
from pipeline_core.jobs import changes
from pipeline_core.plugins.types import PluginType
from pipeline_core.runtime import give, part
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage
from pipeline_core.states import TRANSITIONS, JobState
from pipeline_core.validation.texts import shown

_STEP = table(Step)
_WRITTEN = (table(Event).c.id, select(table(Registry).c.version).scalar_subquery())
"""The event's ID, and the version of the registry whose subscribers it is delivered to."""
_INSERT_EVENT = insert(table(Event)).returning(*_WRITTEN)
_CREATE = Prepared(
    rows.inserting(Event)
    .returning(*_WRITTEN)
    .add_cte(*(rows.inserting(model).cte(model.__tablename__) for model in (Job, JobDocument, Step)))
)
_BEGIN_AT = (
    update(table(Job)).where(table(Job).c.id == bindparam("of_job")).values(stage=bindparam("at")),
    update(_STEP).where(_STEP.c.job_id == bindparam("of_job")).values(stage=bindparam("at")),
)
_INSERT_STEP = insert(_STEP)
_LOCK = select(Job).where(Job.id == bindparam("of_job")).with_for_update(key_share=True)
_DELETE_STEP = delete(_STEP).where(_STEP.c.job_id == bindparam("of_job")).returning(_STEP.c.stage, _STEP.c.lease_until)

REACHES_CLUSTER = (Stage.LAUNCH, Stage.CLUSTER)

Listener = Callable[[Session, Job, datetime], None]


@part
def listeners() -> tuple[Listener, ...]:
    """The listeners that this process calls after a change of a job's state."""
    return ()


def on_transition(listener: Listener) -> None:
    """Call `listener(session, job, moment)` after each change of a job's state, in the transaction that makes it.

    Call it when a process starts; it holds for this process only. Registering a listener again changes nothing.
    """
    if listener not in listeners():
        give(listeners, (*listeners(), listener))


def lock(session: Session, job_id: str) -> Job:
    """The job, locked until the transaction's end. `cursor` and `rollup` lock jobs by statements of their own.

    Rows with a foreign key to the job can be written meanwhile. Otherwise a worker that has locked the step and writes the
    trail would deadlock with one that has locked the job and waits for the step. Raises NotFound.
    """
    job = session.execute(_LOCK, {"of_job": job_id}).scalar_one_or_none()
    if job is None:
        raise NotFound(f"There is no job {shown(job_id)}.")
    return job


def header_of(session: Session, job_id: str) -> Mapping[str, Any]:
    """The job's header."""
    return session.execute(select(JobDocument.header).where(JobDocument.job_id == job_id)).scalar_one()  # type: ignore[no-any-return]


def create(
    session: Session,
    values: Mapping[str, Any],
    document: Mapping[str, Any],
    *,
    first_stage: Callable[[Snapshot], Stage],
    actor: str,
    moment: datetime,
) -> Stage:
    """Store a new job with its document, its first event and its first step, by one statement. Returns the step's stage.

    `values` and `document` are by column, as far as they are not the defaults; `document` needs no `job_id`. `first_stage` says
    where a job begins with the plugins of a snapshot.
    """
    known = snapshot.known(session)
    values = {**values, "stage": first_stage(known), "epoch": 0, "event_sequence": 1}
    job = Job(**values)
    created = _CREATE.execute(
        session.connection(),
        rows.parameters(Job, values)
        | rows.parameters(JobDocument, {**document, "job_id": job.id})
        | rows.parameters(Step, _step(job, Stage(job.stage), moment))
        | rows.parameters(Event, _event(job, previous="", actor=actor, moment=moment)),
    ).one()
    event_id, version = tuple(created)
    if version != known.version:
        # Another process has changed the registry. Rare enough not to ask before.
        job.stage = first_stage(snapshot.at(session, version))
        for statement in _BEGIN_AT:
            session.execute(statement, {"of_job": job.id, "at": job.stage})
    _enqueue_deliveries(session, job, document["header"], event_id, version, moment)
    about = {"user_id": job.user_id, "kind": job.kind, "stage": str(job.stage), **tracing.log_fields(job.traceparent)}
    log_lines.note(session, "job submitted", job_id=job.id, request_id=job.request_id, **about)
    return Stage(job.stage)


def enqueue_step(session: Session, job: Job, stage: Stage, moment: datetime, *, delay: float | None = None) -> None:
    """Make this stage the job's next step. If its wake-up is lost, a tick finds the row.

    With a `delay`, in seconds, the step cannot be claimed before, and is published by the tick.
    """
    if gathered := changes.gathered(session):
        gathered.delete_removed(session)
    session.execute(_INSERT_STEP, _step(job, stage, moment, delay))


def _step(job: Job, stage: Stage, moment: datetime, delay: float | None = None) -> dict[str, Any]:
    not_before = None if delay is None else moment + timedelta(seconds=delay)
    return {
        "job_id": job.id,
        "epoch": job.epoch,
        "stage": stage,
        "pending_since": moment,
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
    """Change the state of a locked job in the caller's transaction.

    Writes the event, enqueues a delivery for each subscriber, and calls the listeners (`on_transition`). A final state also
    removes the step, invalidates older messages by a new epoch, and requests the cleanup if the job may have reached the
    cluster. Raises ValueError for a change that TRANSITIONS does not allow.
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
        job.suspended_at, job.suspended_until = None, None
        job.suspended_by = job.on_timeout = job.resumer = ""
    if to is JobState.RUNNING and job.started_at is None:
        job.started_at = moment
    if to.final:
        job.finished_at = moment
        remove_step(session, job)
        if job.stage in REACHES_CLUSTER:
            job.cleanup = Cleanup.PENDING
    job.event_sequence += 1
    event = _event(job, previous=previous, actor=actor, moment=moment)
    if gathered := changes.gathered(session):
        gathered.events.append(event)
        for plugin in gathered.plugins.subscribers(header or header_of(session, job.id), to):
            gathered.deliveries.append(deliveries.new_row(job.id, job.event_sequence, plugin.key, moment))
            wakeups.after_commit(session, wakeups.DeliveriesDue(plugin.key))
    else:
        event_id, version = session.execute(_INSERT_EVENT, event).one()
        _enqueue_deliveries(session, job, header, event_id, version, moment)
    change = {"state": str(to), "previous": str(previous), "reason": reason, "actor": actor}
    change |= tracing.log_fields(job.traceparent)
    log_lines.note(session, "job state changed", job_id=job.id, request_id=job.request_id, **change)
    for listener in listeners():
        listener(session, job, moment)


def remove_step(session: Session, job: Job) -> None:
    """Remove the job's step, and invalidate its messages and leases by a new epoch.

    A job in the cluster has no step. A launch in progress may still start something there until its lease ends; the cleanup
    waits for that.
    """
    job.epoch += 1
    if job.stage == Stage.CLUSTER:
        return
    if gathered := changes.gathered(session):
        lease_until = gathered.remove_step(job.id)
        if job.stage == Stage.LAUNCH:
            job.cleanup_after = lease_until
        return
    removed = session.execute(_DELETE_STEP, {"of_job": job.id}).one_or_none()
    if removed and removed.stage == Stage.LAUNCH:
        job.cleanup_after = removed.lease_until


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


def _enqueue_deliveries(
    session: Session, job: Job, header: Mapping[str, Any] | None, event_id: int, version: int, moment: datetime
) -> None:
    """Enqueue a delivery of the job's newest event for each subscriber that matches now."""
    plugins = snapshot.at(session, version)
    if not plugins.of(PluginType.LIFE_HOOK):
        return
    for plugin in plugins.subscribers(header or header_of(session, job.id), JobState(job.state)):
        deliveries.enqueue(session, job.id, job.event_sequence, plugin.key, moment, event_id=event_id)
