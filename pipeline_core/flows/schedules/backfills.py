"""Backfills: past points of a schedule that are run on request, oldest first: starting, stopping, resuming, reading them.

`backfill_progress` advances them; all that it needs is in the database, so that it may be called at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth import audit
from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now, parse_rfc3339, rfc3339
from pipeline_core.common.ids import new_backfill_id
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.counting import count_up_to
from pipeline_core.database.models import Backfill, BackfillState, FlowRow, RunRow
from pipeline_core.errors import Conflict, NotFound, PipelineError
from pipeline_core.flows import lookup
from pipeline_core.flows.definition.flow import Flow, parse_stored
from pipeline_core.flows.notation.cron import Schedule, read_moment
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.runs import repository, state_machine
from pipeline_core.flows.schedules import backfill_progress
from pipeline_core.flows.schedules.schedule_state import UNSUCCESSFUL, schedule_cursor
from pipeline_core.flows.states import RunState, Trigger
from pipeline_core.validation.errors import ValidationErrors
from pipeline_core.validation.texts import shown

DUE = "due"
"""The state, in answers, of a point that the schedule itself is about to run."""


class BackfillOperation(StrEnum):
    """Actions of a person on a backfill."""

    RESUME = "resume"
    STOP = "stop"


@dataclass(frozen=True, kw_only=True, slots=True)
class BackfillRequest:
    """A requested backfill: `start` and `end` as they were given, both inclusive."""

    start: str
    end: str
    dry_run: bool = False
    stop_on_failure: bool = False

    def points(self, schedule: Schedule, moment: datetime) -> list[datetime]:
        """The points of the schedule from `start` to `end`. Raises WrongParameter, also when `end` is after `moment`."""
        problems = ValidationErrors()
        times: list[datetime] = []
        for name, text in (("from", self.start), ("to", self.end)):
            try:
                times.append(read_moment(text, schedule.timezone))
            except NotationError as error:
                problems.add(name, str(error))
        problems.raise_any()
        begin, end = times
        if end > moment:
            problems.add("to", f"must not lie in the future, as {rfc3339(end)} does")
            problems.raise_any()
        try:
            return schedule.backfill(begin, end)
        except NotationError as error:
            problems.add("from", str(error))
            problems.raise_any()
            raise


@again_if_contended
def start(name: str, request: BackfillRequest, actor: Actor) -> dict[str, Any]:
    """Start a backfill of a flow, or with `dry_run` say what it would be: `points` get runs, those in `leftOut` do not.

    Left out are points with a run, scheduled or of a backfill, that has not ended or has succeeded, and points that the
    schedule is about to run itself. Raises NotFound; WrongParameter; Conflict for a flow without a schedule, and while
    another backfill of it is running.
    """
    with transaction() as session:
        flow = lookup.visible(session, name, actor, lock=True)
        definition = parse_stored(flow.entry)
        if definition.schedule is None:
            raise Conflict(f"The flow {flow.document_key} has no schedule: its schedule_type is not crontab.")
        moment = now()
        points = request.points(definition.schedule, moment)
        taken = _taken(session, flow, definition, points, moment)
        wanted = [point for point in points if point not in taken]
        planned = {
            "points": [rfc3339(point) for point in wanted],
            "leftOut": [{"point": rfc3339(point), **taken[point]} for point in points if point in taken],
            "timezone": definition.timezone,
        }
        if request.dry_run:
            return planned
        _refuse_second(session, flow)
        backfill = Backfill(
            id=new_backfill_id(moment),
            flow_id=flow.id,
            points=planned["points"],
            made_count=0,
            points_to_retry=[],
            stop_on_failure=request.stop_on_failure,
            state=BackfillState.RUNNING,
            reason="",
            runner=actor.name,
            created_at=moment,
        )
        session.add(backfill)
        session.flush()
        after = {"flow": flow.document_key, "from": request.start, "to": request.end, "points": len(wanted)}
        audit.record(session, actor, audit.Action.BACKFILL_START, backfill.id, after=after)
        backfill_progress.advance_locked(session, backfill, flow)
        return {**planned, "backfillID": backfill.id}


@again_if_contended
def act(backfill_id: str, action: BackfillOperation, actor: Actor) -> None:
    """Stop a backfill and its runs, or resume one that failed or was stopped, which retries its unsuccessful runs.

    Stopping a stopped one and resuming a running one changes nothing. Raises NotFound; Forbidden for resuming one that
    submits another's jobs; Conflict for one that has ended
    otherwise, and while another backfill of the flow is running.
    """
    with transaction() as session:
        found = _visible(session, backfill_id, actor)
        # Starting and resuming a backfill lock the flow, so that one backfill of it is running at most.
        flow = session.scalars(select(FlowRow).where(FlowRow.id == found.flow_id).with_for_update(key_share=True)).one()
        backfill = session.scalars(
            select(Backfill)
            .where(Backfill.id == backfill_id)
            .with_for_update(key_share=True)
            .execution_options(populate_existing=True)
        ).one()
        before = BackfillState(backfill.state)
        if before is (BackfillState.STOPPED if action is BackfillOperation.STOP else BackfillState.RUNNING):
            return
        if action is BackfillOperation.STOP:
            _stop(session, backfill, actor)
            tag = audit.Action.BACKFILL_STOP
        else:
            actor.require_may_submit_for(backfill.runner)
            _resume(session, backfill, flow)
            tag = audit.Action.BACKFILL_RESUME
        audit.record(session, actor, tag, backfill_id, before={"state": before}, after={"state": backfill.state})


def _stop(session: Session, backfill: Backfill, actor: Actor) -> None:
    if backfill.state != BackfillState.RUNNING:
        raise Conflict(f"The backfill {backfill.id} has {backfill.state}; only a running one can be stopped.")
    moment, reason = now(), f"stopped by {actor.name}"
    backfill_progress.finish(backfill, BackfillState.STOPPED, reason, moment)
    open_runs = select(RunRow.id).where(RunRow.backfill_id == backfill.id, RunRow.finished_at.is_(None))
    for run_id in session.scalars(open_runs.order_by(RunRow.id)).all():
        run = repository.lock(session, run_id)
        if not RunState(run.state).final:
            repository.apply_events(session, run, [state_machine.RunStopped(f"the backfill was {reason}")], moment)


def _resume(session: Session, backfill: Backfill, flow: FlowRow) -> None:
    if backfill.state == BackfillState.SUCCEEDED:
        raise Conflict(f"The backfill {backfill.id} has succeeded; there is nothing left of it to resume.")
    _refuse_second(session, flow)
    backfill.points_to_retry = [rfc3339(point) for point in _points_to_retry(session, backfill)]
    backfill.state, backfill.reason, backfill.finished_at = BackfillState.RUNNING, "", None
    session.flush()
    backfill_progress.advance_locked(session, backfill, flow)


def _points_to_retry(session: Session, backfill: Backfill) -> list[datetime]:
    """The points with an unsuccessful run; also points that were to be retried, and the last one, whose run was deleted."""
    states = {point: run["state"] for point, run in _runs(session, backfill).items()}
    made = [parse_rfc3339(point) for point in backfill.points[: backfill.made_count]]
    waiting = {parse_rfc3339(point) for point in backfill.points_to_retry}
    return [
        point
        for point in made
        if states.get(point) in UNSUCCESSFUL or (point not in states and (point == made[-1] or point in waiting))
    ]


def _refuse_second(session: Session, flow: FlowRow) -> None:
    other = session.scalar(
        select(Backfill.id).where(Backfill.flow_id == flow.id, Backfill.state == BackfillState.RUNNING)
    )
    if other:
        raise Conflict(f"The backfill {other} of the flow {flow.document_key} is running; wait for it, or stop it.")


def _taken(
    session: Session, flow: FlowRow, definition: Flow, points: list[datetime], moment: datetime
) -> dict[datetime, dict[str, Any]]:
    """The points that need no run, each with the better of its runs, or that it is due."""
    if not points:
        return {}
    cursor = None if flow.paused else schedule_cursor(flow, definition)
    due = {point: {"runID": None, "state": DUE} for point in points if cursor and cursor.is_due(point, moment)}
    found = session.execute(
        select(RunRow.execution_date, RunRow.id, RunRow.state)
        .where(
            RunRow.flow_id == flow.id,
            RunRow.trigger.in_((Trigger.SCHEDULE, Trigger.BACKFILL)),
            RunRow.execution_date.between(points[0], points[-1]),
            RunRow.state.not_in(UNSUCCESSFUL),
        )
        .order_by((RunRow.state == RunState.SUCCEEDED).asc())
    )
    return {**due, **{point: {"runID": run_id, "state": state} for point, run_id, state in found}}


def _visible(session: Session, backfill_id: str, actor: Actor) -> Backfill:
    backfill = session.get(Backfill, backfill_id)
    if backfill and actor.own_only and backfill.runner != actor.name:
        flow = session.get(FlowRow, backfill.flow_id)
        backfill = backfill if flow and actor.sees(flow.creator) else None
    if backfill is None:
        raise NotFound(f"There is no backfill {shown(backfill_id)}.")
    return backfill


def detail(session: Session, backfill_id: str, actor: Actor) -> dict[str, Any]:
    """A backfill with all its points and their runs. Raises NotFound."""
    backfill = _visible(session, backfill_id, actor)
    flow = session.get_one(FlowRow, backfill.flow_id)
    known = _runs(session, backfill)
    nothing = {"runID": None, "state": RunState.WAITING}
    points = [{"point": text, **known.get(parse_rfc3339(text), nothing)} for text in backfill.points]
    return {**_summary(backfill, flow, _timezone(flow)), "points": points}


def listing(session: Session, name: str, actor: Actor, *, limit: int, offset: int) -> tuple[list[dict[str, Any]], int]:
    """A page of the flow's backfills, the newest first, and how many there are (`count_up_to`). Raises NotFound."""
    flow = lookup.visible(session, name, actor)
    query = select(Backfill).where(Backfill.flow_id == flow.id)
    page = session.scalars(query.order_by(Backfill.id.desc()).limit(limit).offset(offset))
    timezone = _timezone(flow)
    return [_summary(backfill, flow, timezone) for backfill in page], count_up_to(session, query)


def _timezone(flow: FlowRow) -> str:
    """The time zone of the flow's schedule as it now is; UTC for a flow that cannot be read any more."""
    try:
        return parse_stored(flow.entry).timezone
    except PipelineError:
        return "UTC"


def _summary(backfill: Backfill, flow: FlowRow, timezone: str) -> dict[str, Any]:
    return {
        "id": backfill.id,
        "flow": flow.document_key,
        "timezone": timezone,
        "state": backfill.state,
        "reason": backfill.reason,
        "stopOnFailure": backfill.stop_on_failure,
        "runner": backfill.runner,
        "from": backfill.points[0] if backfill.points else None,
        "to": backfill.points[-1] if backfill.points else None,
        "total": len(backfill.points),
        "made": backfill.made_count,
        "createdAt": rfc3339(backfill.created_at),
        "finishedAt": rfc3339(backfill.finished_at),
    }


def _runs(session: Session, backfill: Backfill) -> dict[datetime, Mapping[str, Any]]:
    """The runs of its points, whichever backfill created them."""
    if not backfill.points:
        return {}
    first, last = (parse_rfc3339(backfill.points[place]) for place in (0, -1))
    found = session.execute(
        select(RunRow.execution_date, RunRow.id, RunRow.state).where(
            RunRow.flow_id == backfill.flow_id,
            RunRow.trigger == Trigger.BACKFILL,
            RunRow.execution_date.between(first, last),
        )
    )
    return {point: {"runID": run_id, "state": state} for point, run_id, state in found}
