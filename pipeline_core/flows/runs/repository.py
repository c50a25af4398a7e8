"""The repository of runs: lock a run, read it as the engine's `Run`, apply events, and write back what has changed.

Every change of a run is made here, while its row is locked. The engine's commands are written in the same transaction, as
pending attempts, and so are the alerts.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from types import MappingProxyType
from typing import Any

from sqlalchemy import TextClause, bindparam, insert, select, text, tuple_, update
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import rfc3339
from pipeline_core.database import wakeups
from pipeline_core.database.models import FeedChange, FeedKind, RunRow, TaskAttempt, TaskRunRow, table
from pipeline_core.errors import NotFound
from pipeline_core.flows.definition.cache import FlowCache
from pipeline_core.flows.definition.flow import Flow
from pipeline_core.flows.runs import run_definition, state_machine
from pipeline_core.flows.runs.state_machine import Run, RunCommand, RunEvent, StopJob, SubmitJob, TaskRun
from pipeline_core.flows.states import RunState, TaskState
from pipeline_core.hooks import deliveries
from pipeline_core.runtime import part
from pipeline_core.settings import settings
from pipeline_core.validation.texts import shown

_RUN = select(RunRow).where(RunRow.id == bindparam("run_id"))
_LOCKED = _RUN.with_for_update(key_share=True)
_IF_FREE = _RUN.with_for_update(key_share=True, skip_locked=True)
_TASK = table(TaskRunRow)
_ATTEMPT = table(TaskAttempt)
_TASKS = select(
    _TASK.c.key, _TASK.c.state, _TASK.c.attempt, _TASK.c.active, _TASK.c.retries_left, _TASK.c.reason
).order_by(_TASK.c.position)
_WRITE: TextClause = text(
    "UPDATE task_runs SET state = new.state, attempt = new.attempt, active = new.active, retries_left = new.retries_left,"
    " reason = new.reason, output = new.output,"
    " started_at = CASE WHEN new.fresh THEN new.started_at ELSE coalesce(new.started_at, task_runs.started_at) END,"
    " finished_at = new.finished_at"
    " FROM unnest(CAST(:key AS text[]), CAST(:state AS text[]), CAST(:attempt AS integer[]),"
    " CAST(:active AS boolean[]), CAST(:retries_left AS integer[]), CAST(:reason AS text[]), CAST(:output AS text[]),"
    " CAST(:started_at AS timestamptz[]), CAST(:finished_at AS timestamptz[]), CAST(:fresh AS boolean[]))"
    " AS new (key, state, attempt, active, retries_left, reason, output, started_at, finished_at, fresh)"
    " WHERE task_runs.run_id = :run_id AND task_runs.key = new.key"
)
_INSERT_ATTEMPTS: TextClause = text(
    "INSERT INTO task_attempts (run_id, key, attempt, stop, pending, due_at, bytes)"
    " SELECT :run_id, key, attempt, false, true, :due_at, 0"
    " FROM unnest(CAST(:keys AS text[]), CAST(:attempts AS integer[])) AS new (key, attempt)"
)
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

    A wake-up follows the commit, for a worker that could not lock the run meanwhile (`lock_if_free`).
    """
    wakeups.after_commit(session, wakeups.RunDue(run_id))
    run = session.scalar(_LOCKED, {"run_id": run_id})
    if run is None:
        raise NotFound(f"There is no run {shown(run_id)}.")
    return run


def lock_if_free(session: Session, run_id: str) -> RunRow | None:
    """The run, locked; None when another transaction holds the lock, or there is no such run."""
    return session.scalar(_IF_FREE, {"run_id": run_id})


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


def apply_events(
    session: Session,
    run: RunRow,
    events: Sequence[RunEvent],
    moment: datetime,
    *,
    jobs: Mapping[str, JobDetails] | None = None,
) -> bool:
    """Apply events to a locked run, and write what follows from them; whether anything has changed.

    `jobs` are the details of the jobs that the events are about, by task key.
    """
    before = read(session, run)
    after, commands = state_machine.advance(before, *events)
    if after is before:
        return False
    changed = _write_tasks(session, run, before, after, jobs or {}, moment)
    _write_attempts(session, run, commands, moment)
    # Random, so that the entry of a transaction that does not commit is never found in the cache.
    run.tasks_version = secrets.token_hex(8)
    _cache().put(run.id, (run.tasks_version, after), len(after.tasks))
    change_state(session, run, after.state, moment, reason=after.reason, changed=changed)
    return True


def change_state(
    session: Session,
    run: RunRow,
    state: RunState,
    moment: datetime,
    *,
    reason: str,
    blocked_by: str = "",
    changed: Mapping[str, TaskRun] = MappingProxyType({}),
) -> None:
    """Write the state of a locked run: the only place where it changes. When it has ended, waiting runs may start, and so may one
    that waits again. The feed is given it with the tasks that have `changed`, by key."""
    previous = RunState(run.state)
    if changed or (state, reason, blocked_by) != (previous, run.reason, run.blocked_by):
        flow = run_definition.definition(session, run.id).flow
        session.execute(_INSERT_FEED, feed_change(run, flow, state, moment, reason, previous=previous, changed=changed))
    run.reason, run.blocked_by = reason, blocked_by
    if state is previous:
        return
    run.state = state
    run.finished_at = moment if state.final else None
    if state in _STARTED and run.started_at is None:
        run.started_at = moment
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


def _write_tasks(
    session: Session, run: RunRow, before: Run, after: Run, jobs: Mapping[str, JobDetails], moment: datetime
) -> dict[str, TaskRun]:
    """Write the tasks that have changed. Returns them by key."""
    changed = {
        key: task for key, task in after.tasks.items() if task is not before.tasks[key] and task != before.tasks[key]
    }
    rows = [_row(key, before.tasks[key], task, jobs.get(key, JobDetails()), moment) for key, task in changed.items()]
    if rows:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        session.execute(_WRITE, {"run_id": run.id, **columns})
    return changed


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


def _write_attempts(session: Session, run: RunRow, commands: Iterable[RunCommand], moment: datetime) -> None:
    due = moment + timedelta(seconds=settings().wake_after_seconds)
    submitted = [command for command in commands if isinstance(command, SubmitJob)]
    stopped = [command for command in commands if isinstance(command, StopJob)]
    if submitted:
        session.execute(
            _INSERT_ATTEMPTS,
            {
                "run_id": run.id,
                "due_at": due,
                "keys": [command.task for command in submitted],
                "attempts": [command.attempt for command in submitted],
            },
        )
    if stopped:
        own = tuple_(_ATTEMPT.c.key, _ATTEMPT.c.attempt).in_([(command.task, command.attempt) for command in stopped])
        session.execute(
            update(_ATTEMPT).where(_ATTEMPT.c.run_id == run.id, own).values(stop=True, pending=True, due_at=due)
        )
