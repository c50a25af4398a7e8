"""Creates the due runs of schedules, exactly once each, even if several workers do so at the same time.

The rows of flows are the only input: `next_at` is advanced in the transaction that creates the runs, and a run is unique by
flow and point. A worker that is killed has done all of a small batch or none of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

import structlog
from sqlalchemy import ColumnElement, and_, func, select, update
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import FlowRow, RunRow
from pipeline_core.errors import PipelineError, Unavailable
from pipeline_core.flows.definition.flow import Flow, parse_stored
from pipeline_core.flows.runs import admission, creation
from pipeline_core.flows.schedules.points import LATE, ScheduleCursor
from pipeline_core.flows.schedules.schedule_state import points_with_runs, schedule_cursor
from pipeline_core.flows.states import Trigger

log = structlog.get_logger(__name__)

MAX_OPEN_RUNS = 100
"""Scheduled runs of a flow that have not ended; further points get runs as those end."""

ON_TIME, BEHIND = 500, 50
"""Flows of a round whose points have just become due, and flows of a round that are behind. The latter are chosen at random,
so that all of them advance, and none delays what is due now."""

MAX_WITHOUT_HELP = 40
"""With more flows due at the same time, a second worker is woken up to help."""

MAX_POINTS = 5
"""Points of a flow that get runs in a round."""

FLOWS_PER_TRANSACTION = 20
"""Flows whose runs are created in one transaction."""

MAX_SEARCHED_POINTS = 500
"""Points of a flow that a round searches for those without a run."""

RETRY_AFTER = timedelta(minutes=1)
"""How long to wait after no run of a flow could be created."""


def create_due_runs(seconds: float, *, helping: bool = False) -> int:
    """Create the due runs, in rounds until none is due or `seconds` have passed; how many were created.

    If many are due, another worker is woken up to help: `helping`, it starts at the other end. Raises Unavailable.
    """
    deadline = time.monotonic() + seconds
    made = 0
    while True:
        moment = now()
        due = find_due_flows(moment, helping=helping)
        advanced = 0
        for batch in _batches(list(due)):
            visited, runs_made = create_runs({flow_id: due[flow_id] for flow_id in batch}, moment)
            advanced += visited
            made += runs_made
        if not advanced or time.monotonic() > deadline:
            return made


def is_due(moment: datetime | ColumnElement[datetime]) -> ColumnElement[bool]:
    """Whether a flow's schedule has a due point at this moment."""
    return and_(~FlowRow.paused, FlowRow.next_at <= moment)


def find_due_flows(moment: datetime, *, helping: bool = False) -> dict[str, int]:
    """The flows with due runs, in the order to create these in, and for how many points of each."""
    open_runs = (
        select(func.count())
        .where(
            RunRow.flow_id == FlowRow.id,
            RunRow.trigger == Trigger.SCHEDULE,
            RunRow.finished_at.is_(None),
        )
        .scalar_subquery()
    )
    query = select(FlowRow.id, MAX_OPEN_RUNS - open_runs).where(
        is_due(moment),
        FlowRow.schedule_error_at.is_(None) | (FlowRow.schedule_error_at <= moment - RETRY_AFTER),
        open_runs < MAX_OPEN_RUNS,
    )
    late = FlowRow.next_at <= moment - LATE
    order = (FlowRow.next_at, FlowRow.id)
    with transaction() as session:
        on_time = session.execute(query.where(~late).order_by(*order).limit(ON_TIME)).all()
        behind = session.execute(query.where(late).order_by(func.random()).limit(BEHIND)).all()
        if len(on_time) > MAX_WITHOUT_HELP and not helping:
            wakeups.after_commit(session, wakeups.SchedulesDue())
    found = (*(reversed(on_time) if helping else on_time), *behind)
    return {flow_id: min(MAX_POINTS, free) for flow_id, free in found}


def create_runs(due: Mapping[str, int], moment: datetime) -> tuple[int, int]:
    """Create runs of these flows, for so many points each, and move their `next_at` on, in one transaction.

    Returns how many of the flows were moved on, and how many runs were created. A flow that another worker has locked is
    left out. When a flow fails, its error is recorded, and the other flows are done one by one. Raises Unavailable.
    """
    try:
        return _create_runs(due, moment)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001
        # An error of one flow must not delay the others.
        if len(due) == 1:
            (flow_id,) = due
            _record_error(flow_id, error, moment)
            return 1, 0
    one_by_one = [create_runs({flow_id: most}, moment) for flow_id, most in due.items()]
    return sum(visited for visited, _ in one_by_one), sum(made for _, made in one_by_one)


@again_if_contended
def _create_runs(due: Mapping[str, int], moment: datetime) -> tuple[int, int]:
    query = (
        select(FlowRow)
        .where(FlowRow.id.in_(due), is_due(moment))
        .order_by(FlowRow.next_at)
        .with_for_update(skip_locked=True, key_share=True)
    )
    # Flows and runs are written back together at the end, not one by one before each query.
    with transaction() as session, session.no_autoflush:
        flows = session.scalars(query).all()
        made = sum(_create_for_flow(session, flow, due[flow.id], moment) for flow in flows)
        if made:
            failpoints.reach(Point.SCHEDULE_MADE)
    return len(flows), made


@again_if_contended
def _record_error(flow_id: str, error: Exception, moment: datetime) -> None:
    if isinstance(error, PipelineError):
        reason = error.message
        log.warning("no run of the schedule can be created", flow_id=flow_id, reason=reason)
    else:
        reason = f"A run could not be made: {type(error).__name__}."
        log.error("creating a scheduled run failed", flow_id=flow_id, exc_info=error)
    with transaction() as session:
        session.execute(
            update(FlowRow).where(FlowRow.id == flow_id).values(schedule_error=reason, schedule_error_at=moment)
        )


def _create_for_flow(session: Session, flow: FlowRow, limit: int, moment: datetime) -> int:
    """Create at most `limit` due runs of the flow, oldest first, and move its `next_at` on; how many were created."""
    if flow.schedule_error:
        flow.schedule_error, flow.schedule_error_at = "", None
    definition = parse_stored(flow.entry)
    cursor = schedule_cursor(flow, definition)
    if cursor is None:
        flow.next_at = None
        return 0
    due = list(islice(cursor.due(moment), MAX_SEARCHED_POINTS))
    without_run = _without_run(session, flow, due, moment)
    made = [point for point in without_run[:limit] if _create_run(session, flow, definition, point)]
    flow.next_at = without_run[limit] if len(without_run) > limit else _next_at(cursor, due, moment)
    if made:
        admission.admit_scheduled(session, flow.id, definition)
    return len(made)


def _without_run(session: Session, flow: FlowRow, due: Sequence[datetime], moment: datetime) -> list[datetime]:
    if len(due) == 1 and due[0] > moment - LATE:
        # A point that has just become due has no run; if it has one, creating it finds that out.
        return list(due)
    have = points_with_runs(session, flow, due)
    return [point for point in due if point not in have]


def _create_run(session: Session, flow: FlowRow, definition: Flow, point: datetime) -> bool:
    """Create a run for this point, unless there is one; whether it was created. The caller admits it."""
    made = creation.create(
        session,
        flow,
        trigger=Trigger.SCHEDULE,
        execution_date=point,
        runner=flow.creator,
        definition=definition,
        wake=False,
    )
    return made is not None


def _next_at(cursor: ScheduleCursor, due: Sequence[datetime], moment: datetime) -> datetime | None:
    """The `next_at` of a flow with runs for all these points: the last of them, if there may be more."""
    return due[-1] if len(due) == MAX_SEARCHED_POINTS else next(cursor.upcoming(moment), None)


def _batches(flow_ids: Sequence[str]) -> list[Sequence[str]]:
    return [flow_ids[start : start + FLOWS_PER_TRANSACTION] for start in range(0, len(flow_ids), FLOWS_PER_TRANSACTION)]
