"""Carrying out what the engine owes: the jobs of tasks are submitted, and stopped.

An attempt and its job are written in one transaction, so that none is submitted twice, whoever dies and whoever else is
at it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import structlog
from sqlalchemy import Row, and_, bindparam, func, select, tuple_, update
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.common.ids import new_job_id
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import TaskAttempt, TaskRunRow, table
from pipeline_core.database.wakeups import RunDue
from pipeline_core.errors import Conflict, MissingParameter, NotFound, WrongParameter
from pipeline_core.flows.definition import preparation
from pipeline_core.flows.definition.flow import Task
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.runs import (
    outputs,
    ports,
    repository,
    run_definition,
    taskset,
)
from pipeline_core.flows.runs.engine import JobChanged
from pipeline_core.flows.runs.run_definition import RunDefinition
from pipeline_core.flows.states import TaskState, Trigger
from pipeline_core.jobs import control as jobs
from pipeline_core.jobs.submission import Submission, store
from pipeline_core.settings import settings
from pipeline_core.states import JobState

log = structlog.get_logger(__name__)

_ATTEMPT = table(TaskAttempt)
_TASK = table(TaskRunRow)
_OWED = (
    select(_ATTEMPT.c.key, _ATTEMPT.c.attempt, _ATTEMPT.c.job_id, _ATTEMPT.c.stop)
    .where(_ATTEMPT.c.run_id == bindparam("of_run"), _ATTEMPT.c.pending)
    .order_by(_ATTEMPT.c.due_at)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_TO_STOP = select(_ATTEMPT.c.key, _ATTEMPT.c.attempt, _ATTEMPT.c.job_id).where(
    _ATTEMPT.c.run_id == bindparam("of_run"), _ATTEMPT.c.pending, _ATTEMPT.c.stop
)
_WRITTEN = (
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
_STILL_OWED = select(_ATTEMPT.c.pending).where(*_THIS).with_for_update()
_SETTLED = update(_ATTEMPT).where(*_THIS).values(pending=False)
_SUBMITTED = _SETTLED.values(job_id=bindparam("job_id"))
_WRONG = (WrongParameter, MissingParameter, NotationError)

Owed = tuple[str, int]
"""A task, and the number of its attempt."""


class NoPorts(Exception):
    """So many ports in a row are not free."""


def carry_out(run_id: str, limit: int) -> bool:
    """Submit and stop what the run owes, at most so many; whether there may be more. Raises Unavailable.

    Several may do so at once: each attempt is the work of one of them. What waits for ports is owed on.
    """
    done = 0
    put_off: set[Owed] = set()
    while done < limit and _next(run_id, put_off):
        done += 1
    return done == limit and len(put_off) < limit


def stop_all(run_id: str) -> None:
    """Stop the jobs of the run that are to be stopped, also those that others are about to stop. Raises Unavailable."""
    with transaction() as session:
        stopped = session.execute(_TO_STOP, {"of_run": run_id}).all()
    for key, attempt, job_id in stopped:
        _stop(run_id, (key, attempt), job_id)


@again_if_contended
def _next(run_id: str, put_off: set[Owed]) -> bool:
    """Carry out one attempt that is owed, and not among those put off; whether there was one."""
    wrong = ""
    with transaction() as session:
        attempt = _take(session, run_id, put_off)
        if attempt is None:
            return False
        task: Owed = (attempt.key, attempt.attempt)
        if not attempt.stop:
            try:
                _submit(session, run_id, task)
            except NoPorts:
                put_off.add(task)
            except _WRONG as error:
                wrong = _text(error)
    if attempt.stop:
        _stop(run_id, task, attempt.job_id)
    elif wrong:
        _give_up(run_id, task, wrong)
    else:
        failpoints.reach(Point.TASK_SUBMITTED, attempt.key)
    return True


def _take(session: Session, run_id: str, put_off: Collection[Owed]) -> Row[Any, Any, Any, Any] | None:
    query = _OWED
    if put_off:
        query = query.where(tuple_(_ATTEMPT.c.key, _ATTEMPT.c.attempt).not_in(put_off))
    return session.execute(query, {"of_run": run_id}).one_or_none()


def _submit(session: Session, run_id: str, owed: Owed) -> None:
    """Submit the job of a locked attempt. Raises NoPorts, and what `_WRONG` has, before anything is written."""
    run = run_definition.definition(session, run_id)
    task = run.flow.tasks[owed[0]]
    template = run.catalogue.find(task.template)
    prepared = preparation.prepare(task, template, run.values, _Outputs(session, run_id), run.facts.creator, run.site)
    wanted = taskset.leased_ports(template, prepared, shared_address=settings().cluster_driver == "local")
    lent = ports.choose(session, wanted)
    if len(lent) < wanted:
        raise NoPorts
    debug_seconds = settings().debug_seconds if run.trigger is Trigger.DEBUG else None
    document = taskset.build(task, template, prepared, run.facts, run.global_values, run.site, lent, debug_seconds)
    job_id = new_job_id(now())
    submission = _submission(run, task, document)
    actor = Actor(name=run.facts.runner, request_id=run.request_id)
    store(session, submission, actor, job_id=job_id, run_id=run_id)
    ports.lend(session, lent, job_id)
    _settle(session, run_id, owed, job_id=job_id)
    failpoints.reach(Point.TASK_SUBMITTING, owed[0])


def _submission(run: RunDefinition, task: Task, document: Mapping[str, Any]) -> Submission:
    """What a person would submit; by the header, selectors and gates know what the job is for."""
    return Submission.of_taskset(
        document,
        user_id=run.facts.runner,
        name=f"{run.flow.name}-{task.name}",
        header={
            "flowName": run.flow.name,
            "taskName": task.name,
            "runID": run.facts.id,
            "trigger": run.trigger,
            "project": run.facts.project,
            "template": task.template,
        },
    )


def _settle(session: Session, run_id: str, owed: Owed, job_id: str | None = None) -> None:
    """Nothing is owed any more for this attempt, whose job has been submitted if there is a `job_id`."""
    key, attempt = owed
    known = {"of_run": run_id, "of_key": key, "of_attempt": attempt}
    session.execute(*((_SUBMITTED, {**known, "job_id": job_id}) if job_id else (_SETTLED, known)))


@again_if_contended
def _give_up(run_id: str, owed: Owed, reason: str) -> None:
    """Fail a task that can never be submitted."""
    log.info("task cannot be submitted", run_id=run_id, task=owed[0], reason=reason)
    with transaction() as session:
        run = repository.lock(session, run_id)
        if session.scalar(_STILL_OWED, {"of_run": run_id, "of_key": owed[0], "of_attempt": owed[1]}):
            _settle(session, run_id, owed)
            repository.apply_events(
                session, run, [JobChanged(*owed, JobState.FAILED, reason, non_retryable=True)], now()
            )


def _stop(run_id: str, owed: Owed, job_id: str | None) -> None:
    """Stop the job of an attempt, if it was ever submitted."""
    # It may have ended by itself.
    with suppress(Conflict, NotFound):
        if job_id:
            jobs.stop(job_id, SYSTEM, reason=f"the run {run_id} was stopped")
    failpoints.reach(Point.TASK_STOPPED, owed[0])
    with transaction() as session:
        _settle(session, run_id, owed)


def _text(error: Exception) -> str:
    """All that is wrong, in one sentence."""
    details = getattr(error, "errors", {})
    listed = "; ".join(f"{path} {text}" for path, texts in details.items() for text in texts)
    return listed or str(error)


class _Outputs(Mapping[str, str]):
    """What the tasks of a run that are done have written, by identity; looked up when it is asked for."""

    def __init__(self, session: Session, run_id: str) -> None:
        self._session, self._run_id = session, run_id

    def __getitem__(self, key: str) -> str:
        found = self._session.execute(_WRITTEN, {"of_run": self._run_id, "of_key": key}).one_or_none()
        if found is None:
            raise KeyError(key)
        if found.output is None and found.job_id and (problem := outputs.unknown(self._session, found.job_id)):
            raise NotationError(f"reads the output of {key}, of which nothing is known: {problem}")
        return found.output or ""

    def __iter__(self) -> Iterator[str]:
        return iter(self._session.scalars(select(_TASK.c.key).where(_TASK.c.run_id == self._run_id)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@again_if_contended
def due(limit: int) -> list[RunDue]:
    """Runs whose attempts are owed and that nobody seems to be at work on, their next look put off. Raises Unavailable."""
    found = (
        select(_ATTEMPT.c.run_id, _ATTEMPT.c.key, _ATTEMPT.c.attempt)
        .where(_ATTEMPT.c.pending, _ATTEMPT.c.due_at <= func.now())
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
