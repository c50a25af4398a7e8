"""Admitting runs: those that may start do, the others wait, are blocked, or are overtaken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from pipeline_core.common.clock import now
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import FlowRow, RunRow, TaskRunRow, table
from pipeline_core.flows.definition import documents
from pipeline_core.flows.definition.flow import Flow
from pipeline_core.flows.runs import admission_rules, engine, repository
from pipeline_core.flows.runs.admission_rules import Candidate, Verdict
from pipeline_core.flows.states import BY_HAND, RunState, TaskState, Trigger

OPEN = (RunState.WAITING, RunState.BLOCKED)
OVERTAKEN = "overtaken by newer runs"

_RUN = table(RunRow)
_COLUMNS = (
    _RUN.c.id,
    _RUN.c.execution_date,
    _RUN.c.state,
    _RUN.c.blocked_by,
    _RUN.c.dismissed,
)


@again_if_contended
def admit(flow_id: str) -> list[str]:
    """Let the runs of a flow start that may; their IDs. Raises Unavailable.

    Its flow's row is held meanwhile, so that two at once do not both fill the same room.
    """
    with transaction() as session:
        if not _waiting(session, flow_id):
            return []
        stored = session.scalar(select(FlowRow).where(FlowRow.id == flow_id).with_for_update(key_share=True))
        if stored is None:
            return []
        flow = documents.parse_stored(stored.entry)
        verdicts = {
            **_scheduled(session, flow_id, flow),
            **admission_rules.manual(_by_hand(session, flow_id), max_manual_runs=flow.max_manual_runs),
            **admission_rules.manual(_backfill(session, flow_id), max_manual_runs=flow.max_active_runs),
        }
        moment = now()
        return [run_id for run_id, verdict in verdicts.items() if _carry_out(session, run_id, verdict, moment)]


def admit_scheduled(session: Session, flow_id: str, flow: Flow) -> None:
    """Let those scheduled runs start that may, of a flow whose row is the caller's. They begin once that commits."""
    moment = now()
    for run_id, verdict in _scheduled(session, flow_id, flow).items():
        _carry_out(session, run_id, verdict, moment)


def _waiting(session: Session, flow_id: str) -> bool:
    """Whether any run waits: only then is there anything to decide."""
    waiting = _open(flow_id, Trigger).where(_RUN.c.state.in_(OPEN)).limit(1)
    return session.execute(waiting).first() is not None


def _open(flow_id: str, triggers: Iterable[Trigger]) -> Select[Any]:
    return select(*_COLUMNS).where(
        _RUN.c.flow_id == flow_id, _RUN.c.finished_at.is_(None), _RUN.c.trigger.in_(list(triggers))
    )


def _scheduled(session: Session, flow_id: str, flow: Flow) -> Mapping[str, Verdict]:
    rows = {row.id: row for row in session.execute(_open(flow_id, [Trigger.SCHEDULE]))}
    if not rows:
        return {}
    of_schedule = select(*_COLUMNS).where(_RUN.c.flow_id == flow_id, _RUN.c.trigger == Trigger.SCHEDULE)
    if flow.expired_limit:
        newest = of_schedule.order_by(_RUN.c.execution_date.desc()).limit(flow.expired_limit)
        rows.update((row.id, row) for row in session.execute(newest))
    if flow.depends_on_past:
        rows.update((row.id, row) for row in session.execute(_predecessors(flow_id)))
    return admission_rules.scheduled(
        _candidates(rows.values()),
        max_active_runs=flow.max_active_runs,
        depends_on_past=flow.depends_on_past,
        expired_limit=flow.expired_limit,
    )


def _predecessors(flow_id: str) -> Select[Any]:
    """The scheduled run before each that is open: of a long history, no more is needed."""
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


def _backfill(session: Session, flow_id: str) -> Sequence[Candidate]:
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


def _carry_out(session: Session, run_id: str, verdict: Verdict, moment: datetime) -> bool:
    """Write a verdict down; whether it has started the run. What a person has done to it meanwhile counts more."""
    run = repository.lock(session, run_id)
    if verdict.state is RunState.STOPPED:
        repository.apply_events(session, run, [engine.RunStopped(OVERTAKEN)], moment)
    elif run.state not in OPEN:
        return False
    elif verdict.state is RunState.RUNNING:
        return repository.apply_events(session, run, [engine.RunStarted()], moment)
    else:
        if verdict.state is RunState.EXPIRED:
            _expire_tasks(session, run_id, moment)
        reason = OVERTAKEN if verdict.state is RunState.EXPIRED else run.reason
        repository.change_state(session, run, verdict.state, moment, reason=reason, blocked_by=verdict.blocked_by)
    return False


def _expire_tasks(session: Session, run_id: str, moment: datetime) -> None:
    session.execute(
        update(TaskRunRow)
        .where(TaskRunRow.run_id == run_id, TaskRunRow.state == TaskState.WAITING)
        .values(state=TaskState.STOPPED, reason=OVERTAKEN, finished_at=moment)
    )


@again_if_contended
def waiting(limit: int) -> list[wakeups.FlowDue]:
    """Flows with runs that wait, whoever lost the call for them. Raises Unavailable."""
    with transaction() as session:
        flows = (
            select(_RUN.c.flow_id)
            .where(_RUN.c.state.in_(OPEN))
            .group_by(_RUN.c.flow_id)
            .order_by(func.random())
            .limit(limit)
        )
        return [wakeups.FlowDue(flow_id) for flow_id in session.scalars(flows)]
