"""The schedule of a stored flow: what a change of its definition means for it, pausing it, and how it stands."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from pipeline_core.auth import audit
from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import FlowRow, RunRow
from pipeline_core.errors import Conflict, PipelineError
from pipeline_core.flows import lookup
from pipeline_core.flows.definition.documents import parse_stored
from pipeline_core.flows.definition.flow import Flow
from pipeline_core.flows.schedules.points import LATE, ScheduleCursor, first_from
from pipeline_core.flows.states import RunState, Trigger

MOST_MISSED = 10_000
"""So far what was missed is counted."""

SHOWN_MISSED = 10
"""How many of the missed points are named."""

LOST = (RunState.FAILED, RunState.STOPPED, RunState.EXPIRED)
"""States in which a run has done nothing for its point."""


def apply_definition(flow: FlowRow, before: Flow | None, after: Flow, moment: datetime, *, imported: bool) -> None:
    """Set on a flow's row what follows for its schedule from the definition that it has since `moment`.

    `before` is the definition that it had, None for a new flow. Nothing changes for a schedule that stays as it is. One
    that was set or changed begins anew at `cronjob_start_time`, or at the moment, and comes in paused when it is
    `imported`. A start that alone was moved back lets the points be made up that have no run; one moved on lets those be
    that it passes.
    """
    flow.schedule_error, flow.schedule_error_at = "", None
    if after.schedule is None:
        flow.paused, flow.scheduled_since, flow.next_at, flow.replay_until = False, None, None, None
        return
    known = before if before and before.schedule == after.schedule else None
    if known and known.backfill_start == after.backfill_start:
        return
    since = flow.scheduled_since if known and flow.scheduled_since else moment
    start = after.backfill_start or since
    if known and flow.next_at and start >= (known.backfill_start or since):
        start = max(start, flow.next_at)
    flow.scheduled_since = since
    flow.next_at = first_from(after.schedule, start)
    flow.replay_until = None
    flow.paused = flow.paused or imported


def schedule_cursor(flow: FlowRow, definition: Flow) -> ScheduleCursor | None:
    """How far the flow's schedule has come; None without one, and when the calendar has no more points for it."""
    if definition.schedule is None or flow.next_at is None:
        return None
    return ScheduleCursor(
        schedule=definition.schedule,
        next_at=flow.next_at,
        since=flow.scheduled_since or flow.next_at,
        catchup=definition.catchup,
        replay_until=flow.replay_until,
    )


def points_with_runs(session: Session, flow: FlowRow, points: Iterable[datetime]) -> set[datetime]:
    """Those of these points that have a run: a scheduled one, or a backfill's that is under way or has succeeded."""
    known = list(points)
    if not known:
        return set()
    found = select(RunRow.execution_date).where(
        RunRow.flow_id == flow.id,
        RunRow.execution_date.between(min(known), max(known)),
        or_(
            RunRow.trigger == Trigger.SCHEDULE,
            (RunRow.trigger == Trigger.BACKFILL) & RunRow.state.not_in(LOST),
        ),
    )
    return set(known) & set(session.scalars(found))


@again_if_contended
def pause(name: str, actor: Actor) -> None:
    """Make no more runs of this flow's schedule; a paused one stays so. Raises NotFound; Conflict without a schedule."""
    with transaction() as session:
        flow = _scheduled(session, name, actor)
        if flow.paused:
            return
        flow.paused = True
        audit.record(session, actor, audit.Action.FLOW_PAUSE, flow.document_key)


@again_if_contended
def resume(name: str, actor: Actor, *, replay: bool = False) -> None:
    """Let a paused schedule go on; one that is not paused stays as it is.

    The points until now that have no run are let be, or all made up with `replay`. Raises NotFound; Conflict without a
    schedule.
    """
    with transaction() as session:
        flow = _scheduled(session, name, actor)
        if not flow.paused:
            return
        moment = now()
        if replay:
            flow.replay_until = moment
        elif known := schedule_cursor(flow, parse_stored(flow.entry)):
            flow.next_at = first_from(known.schedule, max(known.next_at, moment))
            flow.replay_until = None
        flow.paused, flow.schedule_error, flow.schedule_error_at = False, "", None
        audit.record(
            session,
            actor,
            audit.Action.FLOW_RESUME,
            flow.document_key,
            after={"replay": replay, "nextAt": rfc3339(flow.next_at)},
        )


def _scheduled(session: Session, name: str, actor: Actor) -> FlowRow:
    flow = lookup.visible(session, name, actor, lock=True)
    if flow.scheduled_since is None:
        raise Conflict(f"The flow {flow.document_key} has no schedule: its schedule_type is not crontab.")
    return flow


def upcoming(session: Session, flow: FlowRow, count: int, moment: datetime) -> dict[str, Any]:
    """How the flow's schedule stands, as the API shows it: the next `count` points, and what was missed until the moment.

    Missed are the points that have no run though their time is over: all of them while the schedule is paused; else those
    that are being made up.
    """
    try:
        definition, fault = parse_stored(flow.entry), flow.schedule_error
    except PipelineError as error:
        definition, fault = None, error.message
    known = schedule_cursor(flow, definition) if definition else None
    return {
        "flow": flow.document_key,
        "paused": flow.paused,
        "cron": definition.schedule.cron if definition and definition.schedule else None,
        "timezone": definition.timezone if definition else None,
        "catchup": definition.catchup if definition else None,
        "since": rfc3339(flow.scheduled_since),
        "next": [rfc3339(point) for point in islice(known.upcoming(moment), count)] if known else [],
        "missed": _missed(session, flow, known, moment) if known else _counted([]),
        "fault": fault,
    }


def _missed(session: Session, flow: FlowRow, known: ScheduleCursor, moment: datetime) -> dict[str, Any]:
    points = known.passed(moment) if flow.paused else known.owed(moment)
    over = [point for point in islice(points, MOST_MISSED + 1) if flow.paused or point <= moment - LATE]
    have = points_with_runs(session, flow, over)
    return _counted([point for point in over if point not in have], exact=len(over) <= MOST_MISSED)


def _counted(points: list[datetime], *, exact: bool = True) -> dict[str, Any]:
    return {
        "count": min(len(points), MOST_MISSED),
        "exact": exact,
        "first": [rfc3339(point) for point in points[:SHOWN_MISSED]],
    }
