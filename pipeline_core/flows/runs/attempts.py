"""Processes task attempts: submits the job of each, or stops it.

An attempt and its job are written in one transaction, so that no job is submitted twice, even if a worker dies or several
workers advance the same run. A job that needs nothing but its own rows is submitted in the transaction that decides on it
(`prepare_jobs`, `submit_prepared`); other attempts are pending until they are processed one by one (`process_pending`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Row, and_, bindparam, delete, exists, func, insert, select, tuple_, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.common import failpoints, tracing
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.common.ids import new_job_id
from pipeline_core.database import again_if_contended, locks, transaction
from pipeline_core.database.engine import to_json
from pipeline_core.database.locks import Lock
from pipeline_core.database.models import Cleanup, Job, PortLease, TaskAttempt, TaskRunRow, table
from pipeline_core.database.wakeups import RunDue
from pipeline_core.errors import Conflict, MissingParameter, NotFound, PipelineError, WrongParameter
from pipeline_core.flows.definition import preparation
from pipeline_core.flows.definition.flow import Task
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.runs import repository, run_definition, taskset
from pipeline_core.flows.runs.run_definition import RunDefinition
from pipeline_core.flows.runs.state_machine import JobChanged, SubmitJob
from pipeline_core.flows.runs.written import SubmittedJob
from pipeline_core.flows.states import TaskState, Trigger
from pipeline_core.jobs import control as jobs
from pipeline_core.jobs.results import Results
from pipeline_core.jobs.submission import Submission, store
from pipeline_core.settings import settings
from pipeline_core.states import JobState

log = structlog.get_logger(__name__)

_ATTEMPT = table(TaskAttempt)
_TASK = table(TaskRunRow)
DUE = and_(_ATTEMPT.c.pending, _ATTEMPT.c.due_at <= func.now())
"""Whether there is something to do for a task attempt now."""
_NEXT_PENDING = (
    select(_ATTEMPT.c.key, _ATTEMPT.c.attempt, _ATTEMPT.c.job_id, _ATTEMPT.c.stop)
    .where(_ATTEMPT.c.run_id == bindparam("of_run"), _ATTEMPT.c.pending)
    .order_by(_ATTEMPT.c.due_at)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_PENDING_STOPS = select(_ATTEMPT.c.key, _ATTEMPT.c.attempt, _ATTEMPT.c.job_id).where(
    _ATTEMPT.c.run_id == bindparam("of_run"), _ATTEMPT.c.pending, _ATTEMPT.c.stop
)
_OUTPUT = (
    select(_TASK.c.output, _ATTEMPT.c.job_id)
    .outerjoin(
        _ATTEMPT,
        and_(_ATTEMPT.c.run_id == _TASK.c.run_id, _ATTEMPT.c.key == _TASK.c.key, _ATTEMPT.c.attempt == _TASK.c.attempt),
    )
    .where(
        _TASK.c.run_id == bindparam("of_run"),
        _TASK.c.key == bindparam("of_key"),
        _TASK.c.state.in_([state for state in TaskState if state.done]),
    )
)
_THIS = (
    _ATTEMPT.c.run_id == bindparam("of_run"),
    _ATTEMPT.c.key == bindparam("of_key"),
    _ATTEMPT.c.attempt == bindparam("of_attempt"),
)
_STILL_PENDING = select(_ATTEMPT.c.pending).where(*_THIS).with_for_update()
_DONE = update(_ATTEMPT).where(*_THIS).values(pending=False)
_SUBMITTED = _DONE.values(job_id=bindparam("job_id"), bytes=bindparam("size"))
_STORED = select(func.coalesce(func.sum(_ATTEMPT.c.bytes), 0)).where(_ATTEMPT.c.run_id == bindparam("of_run"))
_NOT_SUBMITTABLE = (WrongParameter, MissingParameter, NotationError)


class AttemptKey(NamedTuple):
    """A task of a run by its key, and the number of its attempt, counted from 1."""

    task: str
    attempt: int


class NoFreePorts(Exception):
    """The host ports that a task needs in a row are not free at present."""


def process_pending(run_id: str, limit: int) -> bool:
    """Submit or stop the jobs of at most `limit` pending attempts of a run; whether there may be more. Raises Unavailable.

    Several workers may do so at once: each attempt is processed by one of them. One that waits for ports stays pending.
    """
    done = 0
    deferred: set[AttemptKey] = set()
    while done < limit and _process_next(run_id, deferred):
        done += 1
    return done == limit and len(deferred) < limit


def stop_all(run_id: str) -> None:
    """Stop the jobs of the run's attempts that have to be stopped, also those that other workers are stopping.

    Raises Unavailable.
    """
    with transaction() as session:
        stopped = session.execute(_PENDING_STOPS, {"of_run": run_id}).all()
    for key, attempt, job_id in stopped:
        _stop(run_id, AttemptKey(key, attempt), job_id)


@again_if_contended
def due(limit: int) -> list[RunDue]:
    """Wake-ups for runs with attempts that have been pending for a while; they are due again after that while.

    Raises Unavailable.
    """
    found = (
        select(_ATTEMPT.c.run_id, _ATTEMPT.c.key, _ATTEMPT.c.attempt)
        .where(DUE)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("found")
    )
    with transaction() as session:
        rows = session.scalars(
            update(_ATTEMPT)
            .where(
                _ATTEMPT.c.run_id == found.c.run_id,
                _ATTEMPT.c.key == found.c.key,
                _ATTEMPT.c.attempt == found.c.attempt,
            )
            .values(due_at=func.now() + timedelta(seconds=settings().wake_after_seconds))
            .returning(_ATTEMPT.c.run_id)
        ).all()
    return [RunDue(run_id) for run_id in dict.fromkeys(rows)]


@again_if_contended
def _process_next(run_id: str, deferred: set[AttemptKey]) -> bool:
    """Process one pending attempt that is not deferred; whether there was one."""
    refused = ""
    with transaction() as session:
        row = _lock_next(session, run_id, deferred)
        if row is None:
            return False
        key = AttemptKey(row.key, row.attempt)
        if not row.stop:
            try:
                _submit(session, run_id, key)
            except NoFreePorts:
                deferred.add(key)
            except _NOT_SUBMITTABLE as error:
                refused = _text(error)
    if row.stop:
        _stop(run_id, key, row.job_id)
    elif refused:
        log.info("task cannot be submitted", run_id=run_id, task=key.task, reason=refused)
        _end(run_id, JobChanged(key.task, key.attempt, JobState.FAILED, refused, non_retryable=True))
    else:
        failpoints.reach(Point.TASK_SUBMITTED, key.task)
    return True


def _lock_next(session: Session, run_id: str, deferred: Collection[AttemptKey]) -> Row[Any, Any, Any, Any] | None:
    query = _NEXT_PENDING
    if deferred:
        query = query.where(tuple_(_ATTEMPT.c.key, _ATTEMPT.c.attempt).not_in(deferred))
    return session.execute(query, {"of_run": run_id}).one_or_none()


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedJob:
    """The job of an attempt, which may be stored. Its TaskSet takes `size` bytes; `ports` are what it leases."""

    key: AttemptKey
    id: str
    submission: Submission
    size: int
    ports: Sequence[int] = ()


def prepare_jobs(
    session: Session, run: RunDefinition, commands: Iterable[SubmitJob], outputs: Mapping[str, str | None]
) -> dict[SubmitJob, PreparedJob]:
    """The jobs of these attempts, without those that need host ports or cannot be submitted. Writes nothing.

    `outputs` are of the tasks, by key, whose end is not written yet.
    """
    prepared: dict[SubmitJob, PreparedJob] = {}
    known = _Outputs(session, run.context.id, outputs)
    for command in commands:
        key = AttemptKey(command.task, command.attempt)
        others = sum(job.size for job in prepared.values())
        try:
            prepared[command] = _prepare(session, run, key, known, others, may_lease=False)
        except (NoFreePorts, *_NOT_SUBMITTABLE):
            continue
        except (SQLAlchemyError, PipelineError):
            raise
        except Exception:
            # It must not keep the run from what else there is to write.
            log.exception("the job of a task is not prepared: unexpected error", run_id=run.context.id, task=key.task)
    return prepared


def submitted(prepared: Mapping[SubmitJob, PreparedJob]) -> dict[SubmitJob, SubmittedJob]:
    """What their attempts are written with."""
    return {command: SubmittedJob(job.id, job.size) for command, job in prepared.items()}


def submit_prepared(session: Session, run: RunDefinition, job: PreparedJob) -> None:
    """Store the job, in the transaction that writes its ID into the attempt."""
    actor = Actor(name=run.context.runner, request_id=run.request_id)
    run_id = run.context.id
    with tracing.root("submit task", run.traceparent, job_id=job.id, run_id=run_id) as span:
        store(session, job.submission, actor, job_id=job.id, run_id=run_id, traceparent=span.traceparent)
    lease_ports(session, job.ports, job.id)
    failpoints.reach(Point.TASK_SUBMITTING, job.key.task)


def _submit(session: Session, run_id: str, key: AttemptKey) -> None:
    """Submit the job of a locked attempt. Raises NoFreePorts and _NOT_SUBMITTABLE, before anything is written."""
    run = run_definition.definition(session, run_id)
    job = _prepare(session, run, key, _Outputs(session, run_id))
    _mark_done(session, run_id, key, job_id=job.id, size=job.size)
    submit_prepared(session, run, job)


def _prepare(
    session: Session, run: RunDefinition, key: AttemptKey, outputs: _Outputs, others: int = 0, *, may_lease: bool = True
) -> PreparedJob:
    """The job of an attempt; `others` are the bytes of jobs of the run that are not written yet. Raises _NOT_SUBMITTABLE, and
    NoFreePorts, also if it needs ports and does not `may_lease` any."""
    task = run.flow.tasks[key.task]
    template = run.catalogue.find(task.template)
    prepared = preparation.prepare(task, template, run.values, outputs, run.context.creator, run.site)
    count = taskset.ports_to_lease(template, prepared, shared_address=settings().cluster_driver == "local")
    ports = find_free_ports(session, count) if may_lease else ()
    if len(ports) < count:
        raise NoFreePorts
    debug_seconds = settings().debug_seconds if run.trigger is Trigger.DEBUG else None
    document = taskset.build(task, template, prepared, run.context, run.global_values, run.site, ports, debug_seconds)
    size = len(to_json(document).encode("utf-8", "surrogatepass"))
    _require_room(session, run, key, size, others)
    return PreparedJob(
        key=key, id=new_job_id(now()), submission=_submission(run, task, document), size=size, ports=ports
    )


def _require_room(session: Session, run: RunDefinition, key: AttemptKey, size: int, others: int) -> None:
    """Raises NotationError when the jobs of the run's tasks would together take more than PIPELINE_RUN_MAX_BYTES; `others` are
    the bytes of those that are not written yet."""
    limit = settings().run_max_bytes
    if size * len(run.flow.tasks) * key.attempt <= limit:
        return
    stored = (session.scalar(_STORED, {"of_run": run.context.id}) or 0) + others
    if stored + size > limit:
        raise NotationError(
            f"has a TaskSet of {size} bytes, for which there is no room: the run's other jobs take {stored} bytes, and together "
            f"they may take {limit} (PIPELINE_RUN_MAX_BYTES)"
        )


def _submission(run: RunDefinition, task: Task, document: Mapping[str, Any]) -> Submission:
    """The submission of the task's job; its header has the run and the task, for selectors and gates."""
    return Submission.of_taskset(
        document,
        user_id=run.context.runner,
        name=f"{run.flow.name}-{task.name}",
        header={
            "flowName": run.flow.name,
            "taskName": task.name,
            "runID": run.context.id,
            "trigger": run.trigger,
            "project": run.context.project,
            "template": task.template,
        },
    )


def _mark_done(session: Session, run_id: str, key: AttemptKey, job_id: str | None = None, size: int = 0) -> None:
    """The attempt is not pending any more; its job, whose TaskSet takes `size` bytes, has been submitted if there is a
    `job_id`."""
    values = {"of_run": run_id, "of_key": key.task, "of_attempt": key.attempt}
    if job_id:
        session.execute(_SUBMITTED, {**values, "job_id": job_id, "size": size})
    else:
        session.execute(_DONE, values)


@again_if_contended
def _end(run_id: str, ended: JobChanged) -> None:
    """End a pending attempt that has no job, and will have none."""
    key = AttemptKey(ended.task, ended.attempt)
    with transaction() as session:
        run = repository.lock(session, run_id)
        values = {"of_run": run_id, "of_key": key.task, "of_attempt": key.attempt}
        if session.scalar(_STILL_PENDING, values):
            _mark_done(session, run_id, key)
            repository.apply_events(session, run, [ended], now())


def _stop(run_id: str, key: AttemptKey, job_id: str | None) -> None:
    """Stop the job of an attempt, if it was ever submitted. What follows from its end comes by its signal."""
    exists = job_id is not None and _stop_job(job_id, f"the run {run_id} was stopped")
    failpoints.reach(Point.TASK_STOPPED, key.task)
    if not exists:
        return _end(run_id, JobChanged(key.task, key.attempt, JobState.STOPPED))
    with transaction() as session:
        _mark_done(session, run_id, key)


def _stop_job(job_id: str, reason: str) -> bool:
    """Stop a job, unless it has ended by itself; whether it exists."""
    try:
        with suppress(Conflict):
            jobs.stop(job_id, SYSTEM, reason=reason)
    except NotFound:
        return False
    return True


def _text(error: Exception) -> str:
    """All validation errors in one sentence."""
    details = getattr(error, "errors", {})
    listed = "; ".join(f"{path} {text}" for path, texts in details.items() for text in texts)
    return listed or str(error)


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The text that a job wrote to `/output`, None when it wrote none; `problem` is why what it wrote is not valid, `unknown` why
    it could not be collected: then nobody knows whether there was any."""

    text: str | None = None
    problem: str = ""
    unknown: str = ""


def output_of(found: Results) -> TaskOutput:
    """The output of a job with these results: that of the first replica, by role and index, which wrote one."""
    unknown = ""
    for result in found:
        if result.output is not None:
            return TaskOutput(result.output)
        if result.problem and not result.unknown:
            return TaskOutput(problem=result.problem)
        unknown = unknown or result.problem
    return TaskOutput(unknown=unknown)


class _Outputs(Mapping[str, str]):
    """The outputs of the tasks of a run that are done, by task key; each is read from the database when it is needed, but for
    those that are `known` and not written yet."""

    def __init__(self, session: Session, run_id: str, known: Mapping[str, str | None] = MappingProxyType({})) -> None:
        self._session, self._run_id, self._known = session, run_id, known

    def __getitem__(self, key: str) -> str:
        if key in self._known:
            return self._known[key] or ""
        found = self._session.execute(_OUTPUT, {"of_run": self._run_id, "of_key": key}).one_or_none()
        if found is None:
            raise KeyError(key)
        return found.output or ""

    def __iter__(self) -> Iterator[str]:
        return iter(self._session.scalars(select(_TASK.c.key).where(_TASK.c.run_id == self._run_id)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def find_free_ports(session: Session, count: int) -> Sequence[int]:
    """`count` consecutive free host ports, which stay free until the transaction ends; none when there are not so many.

    Leases of jobs that have ended and have been cleaned up are deleted first.
    """
    if not count:
        return ()
    locks.lock(session, Lock.PORTS)
    session.execute(
        delete(PortLease).where(
            exists().where(
                Job.id == PortLease.job_id,
                Job.finished_at.is_not(None),
                func.coalesce(Job.cleanup, Cleanup.DONE) == Cleanup.DONE,
            )
        )
    )
    return first_gap(session.scalars(select(PortLease.port).order_by(PortLease.port)), count, settings().port_range)


def lease_ports(session: Session, ports: Sequence[int], job_id: str) -> None:
    """Lease the ports to a job, whose row exists."""
    if ports:
        session.execute(insert(PortLease), [{"port": port, "job_id": job_id} for port in ports])


def first_gap(leased: Iterable[int], count: int, ports: range) -> Sequence[int]:
    """The first `count` consecutive ports that are not leased (`leased` is in order); none when there are not so many."""
    first = ports.start
    for port in leased:
        if port - first >= count:
            break
        first = max(first, port + 1)
    return range(first, first + count) if first + count <= ports.stop else ()
