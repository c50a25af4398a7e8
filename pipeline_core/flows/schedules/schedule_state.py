"""The schedule of a stored flow: what a new definition changes in it, pausing and resuming it, and its status."""

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
from pipeline_core.flows.definition.flow import Flow, parse_stored
from pipeline_core.flows.schedules.points import LATE, ScheduleCursor, first_from
from pipeline_core.flows.states import RunState, Trigger

MAX_MISSED = 10_000
"""Of more points than this, the others are not looked at: then the count of missed ones is a lower bound."""

SHOWN_MISSED = 10
"""How many of the missed points the API shows."""

UNSUCCESSFUL = (RunState.FAILED, RunState.STOPPED, RunState.EXPIRED)
"""Final states of a run whose point may be run again by a backfill."""


def apply_definition(flow: FlowRow, before: Flow | None, after: Flow, moment: datetime, *, imported: bool) -> None:
    """Update the schedule columns of a flow's row for its new definition `after`, which it has since `moment`.

    `before` is the definition that it had, None for a new flow. Nothing changes for a schedule whose points stay the same. One
    that was set or changed is paused when it is `imported`. A new one starts at `cronjob_start_time`, or at `moment`; so does
    one that was changed and is paused, so that resuming it can `replay` its past; otherwise one that was changed starts at
    `moment` at the earliest. If only `cronjob_start_time` was moved back, the points since then that have no run become due;
    if it was moved forward, the points before it are skipped.
    """
    flow.schedule_error, flow.schedule_error_at = "", None
    if after.schedule is None:
        flow.paused, flow.scheduled_since, flow.next_at, flow.replay_until = False, None, None, None
        return
    same = before if before and before.schedule and before.schedule.same_points(after.schedule) else None
    if same and same.backfill_start == after.backfill_start:
        return
    since = flow.scheduled_since if same and flow.scheduled_since else moment
    start = after.backfill_start or since
    if same and flow.next_at and start >= (same.backfill_start or since):
        start = max(start, flow.next_at)
    flow.paused = flow.paused or imported
    if before and before.schedule and not same and not flow.paused:
        start = max(start, moment)
    flow.scheduled_since = since
    flow.next_at = first_from(after.schedule, start)
    flow.replay_until = None


def schedule_cursor(flow: FlowRow, definition: Flow) -> ScheduleCursor | None:
    """The flow's position in its schedule; None without a schedule, and when it has no more points."""
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
    """Those of these points that have a run: a scheduled one, or a backfill's that has not ended or has succeeded.

    Points between the first and the last whose runs were deleted for their age count as having one.
    """
    wanted = list(points)
    if not wanted:
        return set()
    deleted: set[datetime] = set()
    if flow.deleted_from and flow.deleted_until:
        deleted = {point for point in wanted if flow.deleted_from <= point <= flow.deleted_until}
    found = select(RunRow.execution_date).where(
        RunRow.flow_id == flow.id,
        RunRow.execution_date.between(min(wanted), max(wanted)),
        or_(
            RunRow.trigger == Trigger.SCHEDULE,
            (RunRow.trigger == Trigger.BACKFILL) & RunRow.state.not_in(UNSUCCESSFUL),
        ),
    )
    return deleted | (set(wanted) & set(session.scalars(found)))


@again_if_contended
def pause(name: str, actor: Actor) -> None:
    """Create no more runs of this flow's schedule; a paused one stays paused. Raises NotFound; Conflict without a schedule."""
    with transaction() as session:
        flow = _scheduled(session, name, actor)
        if flow.paused:
            return
        flow.paused = True
        audit.record(session, actor, audit.Action.FLOW_PAUSE, flow.document_key)


@again_if_contended
def resume(name: str, actor: Actor, *, replay: bool = False) -> None:
    """Resume a paused schedule; one that is not paused stays as it is.

    The points until now that have no run are skipped; with `replay` all of them become due. Raises NotFound; Conflict without a
    schedule.
    """
    with transaction() as session:
        flow = _scheduled(session, name, actor)
        if not flow.paused:
            return
        moment = now()
        if replay:
            flow.replay_until = moment
        elif cursor := schedule_cursor(flow, parse_stored(flow.entry)):
            flow.next_at = first_from(cursor.schedule, max(cursor.next_at, moment))
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
    """The status of the flow's schedule, as the API shows it: the next `count` points, and the points missed until `moment`.

    Missed are past points without a run: all of them while the schedule is paused; else those that are due.
    """
    try:
        definition, schedule_error = parse_stored(flow.entry), flow.schedule_error
    except PipelineError as error:
        definition, schedule_error = None, error.message
    cursor = schedule_cursor(flow, definition) if definition else None
    return {
        "flow": flow.document_key,
        "paused": flow.paused,
        "cron": definition.schedule.cron if definition and definition.schedule else None,
        "timezone": definition.timezone if definition else None,
        "catchup": definition.catchup if definition else None,
        "since": rfc3339(flow.scheduled_since),
        "next": [rfc3339(point) for point in islice(cursor.upcoming(moment), count)] if cursor else [],
        "missed": _missed(session, flow, cursor, moment) if cursor else _counted([]),
        "fault": schedule_error,
    }


def _missed(session: Session, flow: FlowRow, cursor: ScheduleCursor, moment: datetime) -> dict[str, Any]:
    points = cursor.passed(moment) if flow.paused else cursor.due(moment)
    missed = [point for point in islice(points, MAX_MISSED + 1) if flow.paused or point <= moment - LATE]
    have = points_with_runs(session, flow, missed)
    return _counted([point for point in missed if point not in have], exact=len(missed) <= MAX_MISSED)


def _counted(points: list[datetime], *, exact: bool = True) -> dict[str, Any]:
    return {
        "count": min(len(points), MAX_MISSED),
        "exact": exact,
        "first": [rfc3339(point) for point in points[:SHOWN_MISSED]],
    }
