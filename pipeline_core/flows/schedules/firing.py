"""Making the runs that schedules owe, exactly once each, however many do so at the same time.

All work is found in the rows of flows: `next_at` is moved on in the transaction that makes the runs, and a run is unique by
flow and point. Whoever was killed has done all of a small batch or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

import structlog
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import FlowRow, RunRow
from pipeline_core.errors import PipelineError, Unavailable
from pipeline_core.flows.definition.documents import parse_stored
from pipeline_core.flows.definition.flow import Flow
from pipeline_core.flows.runs import admission, creation
from pipeline_core.flows.schedules.points import LATE, ScheduleCursor
from pipeline_core.flows.schedules.scheduling import points_with_runs, schedule_cursor
from pipeline_core.flows.states import Trigger

log = structlog.get_logger(__name__)

MOST_OPEN = 100
"""So many scheduled runs of a flow may wait or run; further points are made up as those end."""

ON_TIME, BEHIND = 500, 50
"""Flows of a round whose points have just come, and of those that have missed some. The latter are chosen by lot: each has
its turn, and none holds up what is due now."""

ALONE = 40
"""Flows that are due at the same time and for which no help is called."""

POINTS = 5
"""Points that a flow is given runs for in a round."""

BATCH = 20
"""Flows that share a transaction."""

SEARCHED = 500
"""Points that are looked through in a round for those without a run."""

AGAIN_AFTER = timedelta(minutes=1)
"""When a flow is tried again of which no run could be made."""


def create_due_runs(seconds: float, *, helping: bool = False) -> int:
    """Make the runs that are owed now, in rounds until nothing is or so much time has passed; how many were made.

    Where many are, help is called for: `helping`, it begins at the other end. Raises Unavailable.
    """
    deadline = time.monotonic() + seconds
    made = 0
    while True:
        moment = now()
        due = find_due_flows(moment, helping=helping)
        came_on = 0
        for batch in _batches(list(due)):
            visited, runs_made = create_runs({flow_id: due[flow_id] for flow_id in batch}, moment)
            came_on += visited
            made += runs_made
        if not came_on or time.monotonic() > deadline:
            return made


def find_due_flows(moment: datetime, *, helping: bool = False) -> dict[str, int]:
    """Flows that owe runs at the moment, in the order of their turn, and for how many points each may be given some."""
    has_open = (
        select(func.count())
        .where(
            RunRow.flow_id == FlowRow.id,
            RunRow.trigger == Trigger.SCHEDULE,
            RunRow.finished_at.is_(None),
        )
        .scalar_subquery()
    )
    query = select(FlowRow.id, MOST_OPEN - has_open).where(
        ~FlowRow.paused,
        FlowRow.next_at <= moment,
        FlowRow.schedule_error_at.is_(None) | (FlowRow.schedule_error_at <= moment - AGAIN_AFTER),
        has_open < MOST_OPEN,
    )
    late = FlowRow.next_at <= moment - LATE
    order = (FlowRow.next_at, FlowRow.id)
    with transaction() as session:
        on_time = session.execute(query.where(~late).order_by(*order).limit(ON_TIME)).all()
        behind = session.execute(query.where(late).order_by(func.random()).limit(BEHIND)).all()
        if len(on_time) > ALONE and not helping:
            wakeups.after_commit(session, wakeups.SchedulesDue())
    turns = (*(reversed(on_time) if helping else on_time), *behind)
    return {flow_id: min(POINTS, room) for flow_id, room in turns}


def create_runs(due: Mapping[str, int], moment: datetime) -> tuple[int, int]:
    """Make runs of these flows, for so many points each, and move them on, in one transaction.

    How many of the flows were moved on, and how many runs made. A flow that another is at work on is left to it; one that
    goes wrong is told so, and the others are done each by itself. Raises Unavailable.
    """
    try:
        return _make_runs(due, moment)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001
        # Whatever is wrong with one flow, it must not hold up the others.
        if len(due) == 1:
            (flow_id,) = due
            _set_aside(flow_id, error, moment)
            return 1, 0
    alone = [create_runs({flow_id: most}, moment) for flow_id, most in due.items()]
    return sum(visited for visited, _ in alone), sum(made for _, made in alone)


@again_if_contended
def _make_runs(due: Mapping[str, int], moment: datetime) -> tuple[int, int]:
    query = (
        select(FlowRow)
        .where(FlowRow.id.in_(due), ~FlowRow.paused, FlowRow.next_at <= moment)
        .order_by(FlowRow.next_at)
        .with_for_update(skip_locked=True, key_share=True)
    )
    # Flows and runs are written back together at the end, not one by one before each query.
    with transaction() as session, session.no_autoflush:
        flows = session.scalars(query).all()
        made = sum(_make(session, flow, due[flow.id], moment) for flow in flows)
        if made:
            failpoints.reach(Point.SCHEDULE_MADE)
    return len(flows), made


@again_if_contended
def _set_aside(flow_id: str, error: Exception, moment: datetime) -> None:
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


def _make(session: Session, flow: FlowRow, limit: int, moment: datetime) -> int:
    """Make at most so many runs that the flow owes, oldest first, and move it on; how many were made."""
    if flow.schedule_error:
        flow.schedule_error, flow.schedule_error_at = "", None
    definition = parse_stored(flow.entry)
    known = schedule_cursor(flow, definition)
    if known is None:
        flow.next_at = None
        return 0
    owed = list(islice(known.owed(moment), SEARCHED))
    lacking = _lacking(session, flow, owed, moment)
    made = [point for point in lacking[:limit] if _run(session, flow, definition, point)]
    flow.next_at = lacking[limit] if len(lacking) > limit else _after(known, owed, moment)
    if made:
        admission.admit_scheduled(session, flow.id, definition)
    return len(made)


def _lacking(session: Session, flow: FlowRow, owed: Sequence[datetime], moment: datetime) -> list[datetime]:
    if len(owed) == 1 and owed[0] > moment - LATE:
        # One that has only just come has none; and if it had, it would be found when the run is made.
        return list(owed)
    have = points_with_runs(session, flow, owed)
    return [point for point in owed if point not in have]


def _run(session: Session, flow: FlowRow, definition: Flow, point: datetime) -> bool:
    """Whether a run was made for this point; there may have been one. Its start is the caller's to see to."""
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


def _after(known: ScheduleCursor, owed: Sequence[datetime], moment: datetime) -> datetime | None:
    """Where a flow goes on that lacks no run of these points: with the last of them, when there may be more."""
    return owed[-1] if len(owed) == SEARCHED else next(known.upcoming(moment), None)


def _batches(flow_ids: Sequence[str]) -> list[Sequence[str]]:
    return [flow_ids[start : start + BATCH] for start in range(0, len(flow_ids), BATCH)]
