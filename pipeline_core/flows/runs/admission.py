"""Admission of runs: which waiting runs of a flow start, and which are blocked, expire or are stopped.

The rules are pure (`decide_…`); `admit` reads their candidates, and writes what they decide, under the lock of the flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from pipeline_core.common.clock import now
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import FlowRow, RunRow, TaskRunRow, table
from pipeline_core.flows.definition.flow import Flow, parse_stored
from pipeline_core.flows.runs import repository, state_machine
from pipeline_core.flows.states import BY_HAND, RunState, TaskState, Trigger

OPEN = (RunState.WAITING, RunState.BLOCKED)
"""States of runs that have not started."""

OVERTAKEN = "overtaken by newer runs"
"""The reason of runs that `expired_limit` ends."""

_RUN = table(RunRow)
WAITING = _RUN.c.state.in_(OPEN)
"""Whether a run has not started."""
_COLUMNS = (
    _RUN.c.id,
    _RUN.c.execution_date,
    _RUN.c.state,
    _RUN.c.blocked_by,
    _RUN.c.dismissed,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A run that may be admitted, or that others depend on. `dismissed`: a person lets those that depend on it start."""

    id: str
    execution_date: datetime
    state: RunState
    blocked_by: str = ""
    dismissed: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """The state that a run gets: `running` starts it, `stopped` stops it; the other states are only written."""

    state: RunState
    blocked_by: str = ""


def decide_scheduled(
    runs: Iterable[Candidate], *, max_active_runs: int, depends_on_past: bool, expired_limit: int
) -> dict[str, Admission]:
    """The scheduled runs of a flow whose state changes, by ID; `runs` are all of them, in any order.

    Only the newest `expired_limit` stay (0: all). Of those the oldest start first, while fewer than `max_active_runs` are
    running. With `depends_on_past` a run is blocked, and holds no slot, until the one before it that stays has succeeded or
    was dismissed.
    """
    ordered = sorted(runs, key=lambda run: run.execution_date)
    staying = ordered[-expired_limit:] if expired_limit else ordered
    admissions = {run.id: admission for run in ordered[: len(ordered) - len(staying)] if (admission := _overtaken(run))}
    slots = max_active_runs - sum(run.state is RunState.RUNNING for run in staying)
    previous: Candidate | None = None
    for run in staying:
        if run.state in OPEN:
            admission = Admission(RunState.WAITING)
            if depends_on_past and previous and not (previous.dismissed or previous.state is RunState.SUCCEEDED):
                admission = Admission(RunState.BLOCKED, previous.id)
            elif slots > 0:
                admission = Admission(RunState.RUNNING)
                slots -= 1
            if admission != Admission(run.state, run.blocked_by):
                admissions[run.id] = admission
        previous = run
    return admissions


def decide_in_order(runs: Iterable[Candidate], *, max_running: int) -> dict[str, Admission]:
    """The runs that start now: the first of the given ones, while fewer than `max_running` are running."""
    candidates = list(runs)
    slots = max_running - sum(run.state is RunState.RUNNING for run in candidates)
    waiting = [run.id for run in candidates if run.state in OPEN]
    return {run_id: Admission(RunState.RUNNING) for run_id in waiting[: max(0, slots)]}


def _overtaken(run: Candidate) -> Admission | None:
    if run.state in OPEN:
        return Admission(RunState.EXPIRED)
    return Admission(RunState.STOPPED) if run.state is RunState.RUNNING else None


@again_if_contended
def admit(flow_id: str) -> list[str]:
    """Start the waiting runs of a flow that may start; their IDs. Raises Unavailable.

    The flow's row is locked meanwhile, so that no two transactions fill the same slots.
    """
    with transaction() as session:
        if not _any_waiting(session, flow_id):
            return []
        row = session.scalar(select(FlowRow).where(FlowRow.id == flow_id).with_for_update(key_share=True))
        if row is None:
            return []
        flow = parse_stored(row.entry)
        admissions = {
            **_scheduled(session, flow_id, flow),
            **decide_in_order(_by_hand(session, flow_id), max_running=flow.max_manual_runs),
            **decide_in_order(_of_backfill(session, flow_id), max_running=flow.max_active_runs),
        }
        moment = now()
        return [run_id for run_id, admission in admissions.items() if _apply(session, run_id, admission, moment)]


def admit_scheduled(session: Session, flow_id: str, flow: Flow) -> None:
    """Start those scheduled runs of a flow that may start. The caller has locked the flow's row.

    Their jobs are submitted after the commit.
    """
    moment = now()
    for run_id, admission in _scheduled(session, flow_id, flow).items():
        _apply(session, run_id, admission, moment)


def _any_waiting(session: Session, flow_id: str) -> bool:
    """Whether any run waits: only then is there anything to decide."""
    waiting = _open(flow_id, Trigger).where(WAITING).limit(1)
    return session.execute(waiting).first() is not None


def _open(flow_id: str, triggers: Iterable[Trigger]) -> Select[Any]:
    return select(*_COLUMNS).where(
        _RUN.c.flow_id == flow_id, _RUN.c.finished_at.is_(None), _RUN.c.trigger.in_(list(triggers))
    )


def _scheduled(session: Session, flow_id: str, flow: Flow) -> Mapping[str, Admission]:
    rows = {row.id: row for row in session.execute(_open(flow_id, [Trigger.SCHEDULE]))}
    if not rows:
        return {}
    of_schedule = select(*_COLUMNS).where(_RUN.c.flow_id == flow_id, _RUN.c.trigger == Trigger.SCHEDULE)
    if flow.expired_limit:
        newest = of_schedule.order_by(_RUN.c.execution_date.desc()).limit(flow.expired_limit)
        rows.update((row.id, row) for row in session.execute(newest))
    if flow.depends_on_past:
        rows.update((row.id, row) for row in session.execute(_predecessors(flow_id)))
    return decide_scheduled(
        _candidates(rows.values()),
        max_active_runs=flow.max_active_runs,
        depends_on_past=flow.depends_on_past,
        expired_limit=flow.expired_limit,
    )


def _predecessors(flow_id: str) -> Select[Any]:
    """For each scheduled run that has not ended, the one before it: the rest of a long history is not needed."""
    later = _RUN.alias("later")
    before = (
        select(*_COLUMNS)
        .where(
            _RUN.c.flow_id == flow_id,
            _RUN.c.trigger == Trigger.SCHEDULE,
            _RUN.c.execution_date < later.c.execution_date,
        )
        .order_by(_RUN.c.execution_date.desc())
        .limit(1)
        .lateral("before")
    )
    return (
        select(before)
        .select_from(later)
        .where(later.c.flow_id == flow_id, later.c.finished_at.is_(None), later.c.trigger == Trigger.SCHEDULE)
    )


def _by_hand(session: Session, flow_id: str) -> Sequence[Candidate]:
    return _candidates(session.execute(_open(flow_id, BY_HAND).order_by(_RUN.c.id)))


def _of_backfill(session: Session, flow_id: str) -> Sequence[Candidate]:
    return _candidates(session.execute(_open(flow_id, [Trigger.BACKFILL]).order_by(_RUN.c.execution_date)))


def _candidates(rows: Iterable[Any]) -> Sequence[Candidate]:
    return [
        Candidate(
            id=row.id,
            execution_date=row.execution_date,
            state=RunState(row.state),
            blocked_by=row.blocked_by,
            dismissed=row.dismissed,
        )
        for row in rows
    ]


def _apply(session: Session, run_id: str, admission: Admission, moment: datetime) -> bool:
    """Write an admission; whether it has started the run. A run that a person has changed meanwhile stays as it is."""
    run = repository.lock(session, run_id)
    if admission.state is RunState.STOPPED:
        repository.apply_events(session, run, [state_machine.RunStopped(OVERTAKEN)], moment)
    elif run.state not in OPEN:
        return False
    elif admission.state is RunState.RUNNING:
        return repository.apply_events(session, run, [state_machine.RunAdmitted()], moment)
    else:
        if admission.state is RunState.EXPIRED:
            _expire_tasks(session, run_id, moment)
            # They are not as the cache may have them.
            run.tasks_version = ""
        reason = OVERTAKEN if admission.state is RunState.EXPIRED else run.reason
        repository.change_state(session, run, admission.state, moment, reason=reason, blocked_by=admission.blocked_by)
    return False


def _expire_tasks(session: Session, run_id: str, moment: datetime) -> None:
    session.execute(
        update(TaskRunRow)
        .where(TaskRunRow.run_id == run_id, TaskRunRow.state == TaskState.WAITING)
        .values(state=TaskState.STOPPED, reason=OVERTAKEN, finished_at=moment)
    )


@again_if_contended
def flows_with_waiting_runs(limit: int) -> list[wakeups.FlowDue]:
    """Wake-ups for some flows with waiting runs, chosen at random. Raises Unavailable."""
    with transaction() as session:
        flows = select(_RUN.c.flow_id).where(WAITING).group_by(_RUN.c.flow_id).order_by(func.random()).limit(limit)
        return [wakeups.FlowDue(flow_id) for flow_id in session.scalars(flows)]
