"""Actions of a person on a run: stop, retry, dismiss, mark a task, clear.

Each is one transaction on the run's locked row: of two actions at the same time, the second one sees what the first has done.
"""

from __future__ import annotations

from sqlalchemy import delete
from sqlalchemy.orm import Session

from pipeline_core.auth import audit
from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import Delivery, RunRow
from pipeline_core.errors import Conflict, NotFound, WrongParameter
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.runs import attempts, repository, state_machine
from pipeline_core.flows.states import RunState, TaskState, Trigger
from pipeline_core.validation.texts import shown

MARKS = (TaskState.SUCCEEDED, TaskState.SKIPPED)
"""States that a task may be marked with."""


@again_if_contended
def stop(run_id: str, actor: Actor, *, reason: str = "") -> None:
    """Stop a run and the jobs of its tasks; a stopped run stays as it is.

    Its jobs are ended after this returns. Raises NotFound; Conflict for one that has ended otherwise.
    """
    with transaction() as session:
        run = repository.lock_visible(session, run_id, actor)
        _stop(session, run, actor, reason)


def _stop(session: Session, run: RunRow, actor: Actor, reason: str) -> None:
    before = RunState(run.state)
    if before is RunState.STOPPED:
        return
    if before.final:
        raise Conflict(f"The run {run.id} has {before}; only one that has not ended can be stopped.")
    repository.apply_events(session, run, [state_machine.RunStopped(reason or f"stopped by {actor.name}")], now())
    _audit(session, actor, audit.Action.RUN_STOP, run, before, reason)


@again_if_contended
def retry(run_id: str, actor: Actor) -> None:
    """Run the failed and stopped tasks of a run that has ended again, and the tasks that follow them.

    The run waits until it is admitted, as a new one does. Raises NotFound; Forbidden when the jobs would be another's; Conflict
    unless the run failed or was stopped.
    """
    with transaction() as session:
        run = repository.lock_visible(session, run_id, actor)
        actor.require_may_submit_for(run.runner)
        before = RunState(run.state)
        if before not in (RunState.FAILED, RunState.STOPPED):
            raise Conflict(f"The run {run_id} is {before}; only one that failed or was stopped can be retried.")
        repository.apply_events(session, run, [state_machine.RunRetried()], now())
        _audit(session, actor, audit.Action.RUN_RETRY, run, before)


@again_if_contended
def dismiss(run_id: str, actor: Actor) -> None:
    """Let the runs that depend on a scheduled run start although it has not succeeded; a dismissed run stays as it is.

    Raises NotFound; Conflict for one that succeeded, and for one that no other depends on.
    """
    with transaction() as session:
        run = repository.lock_visible(session, run_id, actor)
        if run.trigger != Trigger.SCHEDULE:
            raise Conflict(f"The run {run_id} was not scheduled: no other run depends on it.")
        if run.state == RunState.SUCCEEDED:
            raise Conflict(f"The run {run_id} has succeeded: it holds no other run up.")
        if run.dismissed:
            return
        run.dismissed = True
        _audit(session, actor, audit.Action.RUN_DISMISS, run, RunState(run.state))
        wakeups.after_commit(session, wakeups.FlowDue(run.flow_id))


@again_if_contended
def mark(run_id: str, task_name: str, state: TaskState, actor: Actor, *, reason: str = "") -> None:
    """Mark a failed or waiting task as succeeded or skipped; a run that failed because of it waits until it is admitted, and
    continues.

    Raises NotFound; WrongParameter for another state; Forbidden when the jobs that follow would be another's; Conflict when
    the task, or its run, is in none that allows it.
    """
    if state not in MARKS:
        raise WrongParameter(f"A task can be marked as {' or '.join(MARKS)}, not as {shown(str(state))}.")
    with transaction() as session:
        run = repository.lock_visible(session, run_id, actor)
        actor.require_may_submit_for(run.runner)
        current, key = repository.read(session, run), identity(task_name)
        if key not in current.tasks:
            raise NotFound(f"The run {run_id} has no task {shown(task_name)}.")
        if not state_machine.can_mark(current, key):
            raise Conflict(
                f"The task {task_name} is {current.tasks[key].state}, in a run that is {run.state}; only a task that has "
                "failed, or waits and was not submitted, can be marked, in a run that was not stopped."
            )
        before = RunState(run.state)
        because = reason or f"marked by {actor.name}"
        repository.apply_events(session, run, [state_machine.TaskMarked(key, state, because)], now())
        audit.record(
            session,
            actor,
            audit.Action.TASK_MARK,
            run_id,
            reason=reason,
            before={"state": before, "task": key, "taskState": current.tasks[key].state},
            after={"state": run.state, "task": key, "taskState": state},
        )


@again_if_contended
def clear(run_id: str, actor: Actor) -> None:
    """Delete a run that has ended, or a debug run, which is stopped first. Its jobs stay jobs.

    Raises NotFound; Conflict for one that has not ended.
    """
    with transaction() as session:
        run = repository.lock_visible(session, run_id, actor)
        if run.trigger == Trigger.DEBUG and not RunState(run.state).final:
            _stop(session, run, actor, "cleared")
        elif not RunState(run.state).final:
            raise Conflict(f"The run {run_id} is {run.state}; only one that has ended can be cleared. Stop it first.")
    attempts.stop_all(run_id)
    with transaction() as session:
        run = repository.lock_visible(session, run_id, actor)
        if not RunState(run.state).final:
            raise Conflict(f"The run {run_id} goes on: somebody has retried it.")
        _audit(session, actor, audit.Action.RUN_CLEAR, run, RunState(run.state))
        session.execute(delete(Delivery).where(Delivery.subject_id == run_id))
        session.execute(delete(RunRow).where(RunRow.id == run_id))
        # The runs that depended on it now depend on the run before it.
        wakeups.after_commit(session, wakeups.FlowDue(run.flow_id))


def _audit(
    session: Session, actor: Actor, action: audit.Action, run: RunRow, before: RunState, reason: str = ""
) -> None:
    audit.record(session, actor, action, run.id, reason=reason, before={"state": before}, after={"state": run.state})
