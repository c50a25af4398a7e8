"""Change a job's state: the only module that decides a change, its event and the deliveries of that; `changes` may gather and
write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.orm import Session

from pipeline_core.common import tracing
from pipeline_core.common.clock import now
from pipeline_core.database import execute_alone, log_lines, rows, wakeups
from pipeline_core.database.models import Cleanup, Event, Job, JobDocument, Registry, Step, table
from pipeline_core.database.models.base import Base
from pipeline_core.database.prepared import Prepared
from pipeline_core.errors import NotFound
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import RegisteredPlugin, Snapshot
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
_REGISTERED = (
    select(table(Registry).c.version)
    .where(table(Registry).c.version == bindparam("registry_version"))
    .cte("registered")
)
_GIVEN: Mapping[type[Base], tuple[str, ...]] = {
    Job: (
        *("id", "user_id", "name", "kind", "namespace", "state", "stage", "event_sequence", "created_at"),
        *("retry_of", "run_id", "submitted_by", "request_id", "traceparent"),
    ),
    JobDocument: ("job_id", "header", "submitted", "taskset", "factors"),
    Step: ("job_id", "epoch", "stage", "pending_since", "due_at", "not_before", "unreachable"),
    Event: ("job_id", "sequence", "state", "previous_state", "reason", "actor", "occurred_at"),
}
_CREATE = Prepared(
    rows.inserting(Event, _GIVEN[Event], _REGISTERED)
    .returning(table(Event).c.id)
    .add_cte(
        *(
            rows.inserting(model, _GIVEN[model], _REGISTERED).cte(model.__tablename__)
            for model in (Job, JobDocument, Step)
        )
    )
)
"""Stores a job, if the registry has the version by which its first stage and its subscribers were chosen. Returns the ID of its
first event."""
_INSERT_STEP = insert(_STEP)
_LOCK = select(Job).where(Job.id == bindparam("of_job")).with_for_update(key_share=True)
_DELETE_STEP = delete(_STEP).where(_STEP.c.job_id == bindparam("of_job")).returning(_STEP.c.stage, _STEP.c.lease_until)

REACHES_CLUSTER = (Stage.LAUNCH, Stage.CLUSTER)

Listener = Callable[[Session, Job, datetime], None]


@part
def listeners() -> tuple[Listener, ...]:
    """The listeners that this process calls by `notify_listeners`."""
    return ()


def on_change(listener: Listener) -> None:
    """Call `listener(session, job, moment)` after each change of a job's state, and when nothing of a stopped job runs in its
    cluster any more, in the transaction that writes it.

    Call it when a process starts; it holds for this process only. Registering a listener again changes nothing.
    """
    if listener not in listeners():
        give(listeners, (*listeners(), listener))


def notify_listeners(session: Session, job: Job, moment: datetime) -> None:
    """Call all listeners of this process."""
    for listener in listeners():
        listener(session, job, moment)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """A job that is to be stored, with its document, its first event and its first step.

    `first_stage` says where it begins with the plugins of a snapshot, `actor` who has submitted it, and `traceparent` is the
    context of its trace, or empty.
    """

    id: str
    user_id: str
    name: str
    kind: str
    namespace: str
    header: Mapping[str, Any]
    submitted: Mapping[str, Any]
    taskset: Mapping[str, Any] | None
    first_stage: Callable[[Snapshot], Stage]
    actor: str
    request_id: str
    moment: datetime
    retry_of: str | None = None
    run_id: str | None = None
    traceparent: str = ""

    def subscribers(self, plugins: Snapshot) -> tuple[RegisteredPlugin, ...]:
        """Who gets its first event."""
        return plugins.subscribers(self.header, JobState.WAITING)

    def parameters(self, plugins: Snapshot, stage: Stage) -> dict[str, Any]:
        """The parameters of `_CREATE`, by the columns in `_GIVEN`."""
        job = {
            "id": self.id,
            "user_id": self.user_id,
            "name": self.name,
            "kind": self.kind,
            "namespace": self.namespace,
            "state": JobState.WAITING,
            "stage": stage,
            "event_sequence": 1,
            "created_at": self.moment,
            "retry_of": self.retry_of,
            "run_id": self.run_id,
            "submitted_by": self.actor,
            "request_id": self.request_id,
            "traceparent": self.traceparent,
        }
        document = {
            "job_id": self.id,
            "header": self.header,
            "submitted": self.submitted,
            "taskset": self.taskset,
            "factors": {},
        }
        event = _event(self.id, 1, JobState.WAITING, previous="", reason="", actor=self.actor, moment=self.moment)
        return {
            "registry_version": plugins.version,
            **rows.parameters(Job, job),
            **rows.parameters(JobDocument, document),
            **rows.parameters(Step, _step(self.id, 0, stage, self.moment)),
            **rows.parameters(Event, event),
        }

    def log_fields(self, stage: Stage) -> dict[str, Any]:
        """What the log line of the submission says."""
        about = {
            "user_id": self.user_id,
            "kind": self.kind,
            "stage": str(stage),
            **tracing.log_fields(self.traceparent),
        }
        return {"text": "job submitted", "job_id": self.id, "request_id": self.request_id, **about}


def create(session: Session, job: NewJob) -> Stage:
    """Store a new job, and enqueue the deliveries of its first event. Returns the stage of its first step."""
    plugins = snapshot.known(session)
    while True:
        stage = job.first_stage(plugins)
        created = _CREATE.execute(session.connection(), job.parameters(plugins, stage)).one_or_none()
        if created:
            break
        # Another process has changed the registry. Rare enough not to ask before.
        plugins = snapshot.current(session)
    _enqueue_deliveries(session, job.id, 1, job.subscribers(plugins), created.id, job.moment)
    log_lines.note(session, **job.log_fields(stage))
    return stage


def create_alone(job: NewJob) -> Stage | None:
    """The same by one statement that is a transaction by itself, for a job whose first event no subscriber gets.

    Returns None, and stores nothing, if one does, or if that has to be found out first. Raises Unavailable and Contended.
    """
    plugins = snapshot.latest()
    if plugins is None or job.subscribers(plugins):
        return None
    stage = job.first_stage(plugins)
    if not execute_alone(_CREATE, job.parameters(plugins, stage)):
        return None
    log_lines.write(**job.log_fields(stage))
    return stage


def enqueue_step(session: Session, job: Job, stage: Stage, moment: datetime, *, delay: float | None = None) -> None:
    """Make this stage the job's next step. If its wake-up is lost, a tick finds the row.

    With a `delay`, in seconds, the step cannot be claimed before, and is published by the tick.
    """
    if gathered := changes.gathered(session):
        gathered.delete_removed(session)
    session.execute(_INSERT_STEP, _step(job.id, job.epoch, stage, moment, delay))


def _step(job_id: str, epoch: int, stage: Stage, moment: datetime, delay: float | None = None) -> dict[str, Any]:
    not_before = None if delay is None else moment + timedelta(seconds=delay)
    return {
        "job_id": job_id,
        "epoch": epoch,
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

    Writes the event, enqueues a delivery for each subscriber, and calls the listeners (`on_change`). A final state also
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
    event = _event(job.id, job.event_sequence, to, previous=previous, reason=reason, actor=actor, moment=moment)
    if gathered := changes.gathered(session):
        gathered.events.append(event)
        for plugin in gathered.plugins.subscribers(header or header_of(session, job.id), to):
            gathered.deliveries.append(deliveries.new_row(job.id, job.event_sequence, plugin.key, moment))
            wakeups.after_commit(session, wakeups.DeliveriesDue(plugin.key))
    else:
        event_id, version = session.execute(_INSERT_EVENT, event).one()
        plugins = snapshot.at(session, version)
        if plugins.of(PluginType.LIFE_HOOK):
            subscribers = plugins.subscribers(header or header_of(session, job.id), to)
            _enqueue_deliveries(session, job.id, job.event_sequence, subscribers, event_id, moment)
    change = {"state": str(to), "previous": str(previous), "reason": reason, "actor": actor}
    change |= tracing.log_fields(job.traceparent)
    log_lines.note(session, "job state changed", job_id=job.id, request_id=job.request_id, **change)
    notify_listeners(session, job, moment)


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


def _event(
    job_id: str, sequence: int, state: JobState, *, previous: str, reason: str, actor: str, moment: datetime
) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "sequence": sequence,
        "state": state,
        "previous_state": previous,
        "reason": reason,
        "actor": actor,
        "occurred_at": moment,
    }


def _enqueue_deliveries(
    session: Session,
    job_id: str,
    sequence: int,
    subscribers: Iterable[RegisteredPlugin],
    event_id: int,
    moment: datetime,
) -> None:
    for plugin in subscribers:
        deliveries.enqueue(session, job_id, sequence, plugin.key, moment, event_id=event_id)
