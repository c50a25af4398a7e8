"""The repository of runs: lock a run, read it as the engine's `Run`, apply events, and write back what has changed.

Every change of a run is made here, while its row is locked. The engine's commands are written in the same transaction, as
pending attempts, and so are the alerts. `written.py` has the statement.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any

from sqlalchemy import bindparam, insert, select
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import rfc3339
from pipeline_core.database import wakeups
from pipeline_core.database.models import FeedChange, FeedKind, RunRow, TaskRunRow, table
from pipeline_core.errors import Contended, NotFound
from pipeline_core.flows.definition.cache import FlowCache
from pipeline_core.flows.definition.flow import Flow
from pipeline_core.flows.runs import run_definition, state_machine, written
from pipeline_core.flows.runs.state_machine import Run, RunCommand, RunEvent, SubmitJob, TaskRun
from pipeline_core.flows.runs.written import SubmittedJob
from pipeline_core.flows.states import RunState, TaskState
from pipeline_core.hooks import deliveries
from pipeline_core.runtime import part
from pipeline_core.settings import settings
from pipeline_core.validation.texts import shown

_RUN = select(RunRow).where(RunRow.id == bindparam("run_id"))
_LOCKED = _RUN.with_for_update(key_share=True).execution_options(populate_existing=True)
_TASK = table(TaskRunRow)
_TASKS = select(
    _TASK.c.key, _TASK.c.state, _TASK.c.attempt, _TASK.c.active, _TASK.c.retries_left, _TASK.c.reason
).order_by(_TASK.c.position)
_INSERT_FEED = insert(table(FeedChange))
MAX_FEED_TASKS = 100
"""How many of the tasks that have changed together an entry of the feed names."""

_STARTED = (RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED)
"""States of runs that have started. A run without jobs succeeds in the moment when it starts."""
_NOT_ENDED = (TaskState.WAITING, TaskState.RUNNING, TaskState.SUSPENDED)


@part
def _cache() -> FlowCache[tuple[str, Run]]:
    """Runs by ID, each with its `tasks_version`."""
    return FlowCache()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDetails:
    """What a task run takes over from its job besides the state."""

    started_at: datetime | None = None
    finished_at: datetime | None = None
    output: str | None = None


def lock(session: Session, run_id: str) -> RunRow:
    """The run, locked until the transaction's end. Raises NotFound.

    A wake-up follows the commit, for a worker that could not write the run meanwhile (`write`).
    """
    wakeups.after_commit(session, wakeups.RunDue(run_id))
    run = session.scalar(_LOCKED, {"run_id": run_id})
    if run is None:
        raise NotFound(f"There is no run {shown(run_id)}.")
    return run


def lock_visible(session: Session, run_id: str, actor: Actor) -> RunRow:
    """The run, locked. Raises NotFound also when the actor may not see it."""
    run = lock(session, run_id)
    if not is_visible(actor, run):
        raise NotFound(f"There is no run {shown(run_id)}.")
    return run


def is_visible(actor: Actor, run: Any) -> bool:
    """Whether the actor may see the run (or a row with its `runner` and `creator`)."""
    return actor.sees(run.runner) or actor.sees(run.creator)


def read(session: Session, run: RunRow) -> Run:
    """The run as the engine's `Run`."""
    cached = _cache().get(run.id)
    if cached and run.tasks_version and cached[0] == run.tasks_version:
        return cached[1]
    tasks = {
        key: TaskRun(state=TaskState(state), attempt=attempt, active=active, retries_left=retries_left, reason=reason)
        for key, state, attempt, active, retries_left, reason in session.execute(_TASKS.where(_TASK.c.run_id == run.id))
    }
    return Run(
        plan=run_definition.definition(session, run.id).plan, tasks=tasks, state=RunState(run.state), reason=run.reason
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunChange:
    """A run before and after some events, and the commands that follow."""

    before: Run
    after: Run
    commands: tuple[RunCommand, ...]

    @property
    def to_submit(self) -> list[SubmitJob]:
        """The jobs that are to be submitted."""
        return [command for command in self.commands if isinstance(command, SubmitJob)]


def change_of(session: Session, run: RunRow, events: Sequence[RunEvent]) -> RunChange:
    """What events change in a run."""
    before = read(session, run)
    after, commands = state_machine.advance(before, *events)
    return RunChange(before=before, after=after, commands=commands)


def apply_events(session: Session, run: RunRow, events: Sequence[RunEvent], moment: datetime) -> bool:
    """Apply events to a locked run, and write what follows from them; whether anything has changed.

    Raises Contended when the run is not as it was when it was locked.
    """
    change = change_of(session, run, events)
    if change.after is change.before:
        return False
    if not write(session, run, change, moment):
        raise Contended(retry_after=1)
    return True


def write(
    session: Session,
    run: RunRow,
    change: RunChange,
    moment: datetime,
    *,
    jobs: Mapping[str, JobDetails] = MappingProxyType({}),
    signals: Sequence[int] = (),
    submitted: Mapping[SubmitJob, SubmittedJob] = MappingProxyType({}),
) -> bool:
    """Write the change of a run, and delete the signals with these IDs, which it comes from.

    `jobs` are the details of the jobs that the events were about, by task key; `submitted` are the jobs that the caller stores in
    this transaction, so that their attempts are not pending. Returns False, and writes nothing, when another transaction holds
    the run's lock, or has changed it or deleted a signal since `run` was read.
    """
    before, after = change.before, change.after
    changed = {
        key: task for key, task in after.tasks.items() if task is not before.tasks[key] and task != before.tasks[key]
    }
    previous, columns = RunState(run.state), _columns(run, after.state, after.reason, "", moment)
    # Random, so that the entry of a transaction that does not commit is never found in the cache.
    version = secrets.token_hex(8)
    feed = None
    if _shows(run, after.state, after.reason, "", changed):
        flow = run_definition.definition(session, run.id).flow
        feed = feed_change(run, flow, after.state, moment, after.reason, previous=previous, changed=changed)
    tasks = [_row(key, before.tasks[key], task, jobs.get(key, JobDetails()), moment) for key, task in changed.items()]
    if not written.write(
        session,
        run.id,
        known_version=run.tasks_version,
        columns={**columns, "tasks_version": version},
        tasks=tasks,
        commands=change.commands,
        submitted=submitted,
        signals=signals,
        feed=feed,
        moment=moment,
    ):
        return False
    _cache().put(run.id, (version, after), len(after.tasks))
    for name, value in {**columns, "tasks_version": version}.items():
        set_committed_value(run, name, value)
    _follow_up(session, run, previous, moment)
    return True


def change_state(
    session: Session, run: RunRow, state: RunState, moment: datetime, *, reason: str, blocked_by: str = ""
) -> None:
    """Write the state of a locked run, none of whose tasks changes. When it has ended, waiting runs may start, and so may one
    that waits again."""
    previous = RunState(run.state)
    if _shows(run, state, reason, blocked_by):
        flow = run_definition.definition(session, run.id).flow
        session.execute(_INSERT_FEED, feed_change(run, flow, state, moment, reason, previous=previous))
    for name, value in _columns(run, state, reason, blocked_by, moment).items():
        setattr(run, name, value)
    _follow_up(session, run, previous, moment)


def _shows(
    run: RunRow, state: RunState, reason: str, blocked_by: str, changed: Mapping[str, TaskRun] = MappingProxyType({})
) -> bool:
    """Whether the feed gets an entry."""
    return bool(changed) or (state, reason, blocked_by) != (run.state, run.reason, run.blocked_by)


def _columns(run: RunRow, state: RunState, reason: str, blocked_by: str, moment: datetime) -> dict[str, Any]:
    """The columns of a run that comes to this state."""
    is_new = state != run.state
    begins = is_new and state in _STARTED and run.started_at is None
    return {
        "state": state,
        "reason": reason,
        "blocked_by": blocked_by,
        "started_at": moment if begins else run.started_at,
        "finished_at": (moment if state.final else None) if is_new else run.finished_at,
    }


def _follow_up(session: Session, run: RunRow, previous: RunState, moment: datetime) -> None:
    state = RunState(run.state)
    if state is previous:
        return
    record_alert(session, run, run_definition.definition(session, run.id).flow, moment)
    if state.final or state is RunState.WAITING:
        wakeups.after_commit(session, wakeups.FlowDue(run.flow_id))


def record_start(session: Session, run: RunRow, flow: Flow, moment: datetime) -> None:
    """Put a new run into the feed, and enqueue the alert of its state."""
    session.execute(_INSERT_FEED, feed_change(run, flow, RunState(run.state), moment, run.reason))
    record_alert(session, run, flow, moment)


def feed_change(
    run: RunRow,
    flow: Flow,
    state: RunState,
    moment: datetime,
    reason: str,
    *,
    previous: str = "",
    changed: Mapping[str, TaskRun] = MappingProxyType({}),
) -> dict[str, Any]:
    """The row that says in which state a run is, with the first MAX_FEED_TASKS of the tasks that have changed."""
    tasks = [
        {"name": flow.tasks[key].name, "state": str(task.state), "attempt": task.attempt}
        for key, task in islice(changed.items(), MAX_FEED_TASKS)
    ]
    return {
        "kind": FeedKind.RUN,
        "user_id": run.runner,
        "creator": run.creator,
        "occurred_at": moment,
        "document": {
            "jobID": None,
            "runID": run.id,
            "flow": flow.name,
            "trigger": str(run.trigger),
            "state": str(state),
            "previousState": str(previous),
            "reason": reason,
            "userID": run.runner,
            "tasks": tasks,
            "tasksChanged": len(changed),
        },
    }


def record_alert(session: Session, run: RunRow, flow: Flow, moment: datetime) -> None:
    """Enqueue the alert of the run's state, if the flow asks for it."""
    if RunState(run.state) in flow.alert_states:
        deliveries.enqueue_alert(session, run.id, run.state, alert_body(run, flow, settings().public_url), moment)


def alert_body(run: RunRow, flow: Flow, public_url: str) -> dict[str, Any]:
    """The body of an alert, except what its delivery adds. Times are RFC 3339."""
    return {
        "run": run.id,
        "flow": flow.name,
        "trigger": run.trigger,
        "executionDate": rfc3339(run.execution_date),
        "reason": run.reason,
        "users": list(flow.alert_users),
        "creator": run.creator,
        "runner": run.runner,
        "createdAt": rfc3339(run.created_at),
        "startAt": rfc3339(run.started_at),
        "finishedAt": rfc3339(run.finished_at),
        "link": f"{public_url.rstrip('/')}/v1/runs/{run.id}",
    }


def _row(key: str, before: TaskRun, after: TaskRun, job: JobDetails, moment: datetime) -> dict[str, Any]:
    fresh = after.attempt != before.attempt or (after.state is TaskState.WAITING and not after.active)
    own = JobDetails() if fresh else job
    return {
        "key": key,
        "state": after.state,
        "attempt": after.attempt,
        "active": after.active,
        "retries_left": after.retries_left,
        "reason": after.reason,
        "output": own.output,
        "started_at": own.started_at,
        "finished_at": None if after.state in _NOT_ENDED else own.finished_at or moment,
        "fresh": fresh,
    }
