"""How a backfill comes on: the next of its points get runs as long as there is room, until all have ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now, parse_rfc3339, rfc3339
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Backfill, BackfillState, FlowRow, RunRow, TaskAttempt
from pipeline_core.errors import PipelineError, Unavailable
from pipeline_core.flows.definition.documents import parse_stored
from pipeline_core.flows.runs import creation, engine, repository
from pipeline_core.flows.schedules.scheduling import LOST
from pipeline_core.flows.states import RunState, Trigger

MOST_OPEN = 100
"""So many runs of a backfill may wait or run, whatever `max_active_runs` says."""


def running(limit: int) -> list[str]:
    """Some of the flows that have a running backfill, chosen by lot, so that each has its turn. Raises Unavailable."""
    query = select(Backfill.flow_id).where(Backfill.state == BackfillState.RUNNING)
    with transaction() as session:
        return list(session.scalars(query.order_by(func.random()).limit(limit)))


@again_if_contended
def advance(flow_id: str) -> None:
    """Let the flow's running backfill come on, if there is one and nobody else is at it. Raises Unavailable."""
    query = select(Backfill).where(Backfill.flow_id == flow_id, Backfill.state == BackfillState.RUNNING)
    with transaction() as session:
        if session.scalar(query.with_only_columns(Backfill.id)) is None:
            return
        # The flow first, as everybody takes them who holds both.
        flow = session.scalar(select(FlowRow).where(FlowRow.id == flow_id).with_for_update(read=True, key_share=True))
        backfill = session.scalar(query.with_for_update(skip_locked=True, key_share=True))
        if flow and backfill:
            advance_locked(session, backfill, flow)


def advance_locked(session: Session, backfill: Backfill, flow: FlowRow) -> None:
    """Let a running backfill, whose row is the caller's, come on as far as it can now."""
    moment = now()
    try:
        with session.begin_nested():
            _come_on(session, backfill, flow, moment)
    except Unavailable:
        raise
    except PipelineError as error:
        finish(backfill, BackfillState.FAILED, f"A run could not be made: {error.message}", moment)


def finish(backfill: Backfill, state: BackfillState, reason: str, moment: datetime) -> None:
    """Write down how a backfill has ended."""
    backfill.state, backfill.reason, backfill.finished_at = state, reason, moment


def _come_on(session: Session, backfill: Backfill, flow: FlowRow, moment: datetime) -> None:
    lost = _lost(session, backfill)
    if lost and backfill.stop_on_failure:
        finish(backfill, BackfillState.FAILED, _why(lost[0]), moment)
        return
    room = 1 if backfill.stop_on_failure else min(parse_stored(flow.entry).max_active_runs, MOST_OPEN)
    in_course = _in_course(session, backfill)
    made = 0
    while in_course + made < room and (point := _next(backfill)):
        if not _run(session, backfill, flow, parse_rfc3339(point), moment):
            return
        made += 1
        _move_on(backfill)
    if made:
        session.flush()
        failpoints.reach(Point.BACKFILL_MADE)
        in_course = _in_course(session, backfill)
    if not in_course and not _next(backfill):
        state = BackfillState.FAILED if lost else BackfillState.SUCCEEDED
        finish(backfill, state, f"{len(lost)} of {len(backfill.points)} points failed" if lost else "", moment)


def _next(backfill: Backfill) -> str | None:
    """The next point, those first that are to be done again."""
    if backfill.points_to_retry:
        return str(backfill.points_to_retry[0])
    return str(backfill.points[backfill.made_count]) if backfill.made_count < len(backfill.points) else None


def _move_on(backfill: Backfill) -> None:
    if backfill.points_to_retry:
        backfill.points_to_retry = backfill.points_to_retry[1:]
    else:
        backfill.made_count += 1


def _run(session: Session, backfill: Backfill, flow: FlowRow, point: datetime, moment: datetime) -> bool:
    """See that this point has a run; whether it has.

    A run that came to nothing is retried when this backfill made it, and else gives way to one of the flow as it is now,
    as soon as nothing of it is left.
    """
    run = session.scalar(
        select(RunRow)
        .where(
            RunRow.flow_id == flow.id,
            RunRow.trigger == Trigger.BACKFILL,
            RunRow.execution_date == point,
        )
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )
    if run and run.state in LOST and run.backfill_id != backfill.id:
        if session.scalar(select(exists().where(TaskAttempt.run_id == run.id, TaskAttempt.pending))):
            return False
        session.execute(delete(RunRow).where(RunRow.id == run.id))
        session.expunge(run)
        run = None
    if run is None:
        creation.create(
            session,
            flow,
            trigger=Trigger.BACKFILL,
            execution_date=point,
            runner=backfill.runner,
            backfill_id=backfill.id,
        )
    elif run.state in LOST:
        repository.apply_events(session, run, [engine.RunRetried()], moment)
    elif not RunState(run.state).final:
        # Another backfill made it, which has ended since; somebody has retried it.
        run.backfill_id = backfill.id
    return True


def _in_course(session: Session, backfill: Backfill) -> int:
    return session.execute(
        select(func.count()).where(RunRow.backfill_id == backfill.id, RunRow.finished_at.is_(None))
    ).scalar_one()


def _lost(session: Session, backfill: Backfill) -> Sequence[RunRow]:
    """The backfill's runs that came to nothing, oldest first, but for those that are to be done again."""
    again = {parse_rfc3339(point) for point in backfill.points_to_retry}
    found = session.scalars(
        select(RunRow).where(RunRow.backfill_id == backfill.id, RunRow.state.in_(LOST)).order_by(RunRow.execution_date)
    )
    return [run for run in found if run.execution_date not in again]


def _why(run: RunRow) -> str:
    ended = "has failed" if run.state == RunState.FAILED else f"was {run.state}"
    return f"the run {run.id} of {rfc3339(run.execution_date)} {ended}"
