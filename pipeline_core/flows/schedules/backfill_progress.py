"""Advances backfills: creates runs for the next points while slots are free, until all of their runs have ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.clock import now, parse_rfc3339, rfc3339
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Backfill, BackfillState, FlowRow, RunRow, TaskRunRow
from pipeline_core.errors import PipelineError, Unavailable
from pipeline_core.flows.definition.flow import parse_stored
from pipeline_core.flows.runs import creation, repository, state_machine
from pipeline_core.flows.schedules.schedule_state import UNSUCCESSFUL
from pipeline_core.flows.states import RunState, Trigger

MAX_OPEN_RUNS = 100
"""Runs of a backfill that have not ended, however large `max_active_runs` is."""
RUNNING = Backfill.state == BackfillState.RUNNING
"""Whether a backfill is running."""


def flows_with_running_backfill(limit: int) -> list[str]:
    """IDs of some flows with a running backfill, chosen at random so that all of them advance. Raises Unavailable."""
    query = select(Backfill.flow_id).where(RUNNING)
    with transaction() as session:
        return list(session.scalars(query.order_by(func.random()).limit(limit)))


@again_if_contended
def advance(flow_id: str) -> None:
    """Advance the flow's running backfill, if there is one and no other worker has locked it. Raises Unavailable."""
    query = select(Backfill).where(Backfill.flow_id == flow_id, RUNNING)
    with transaction() as session:
        if session.scalar(query.with_only_columns(Backfill.id)) is None:
            return
        # Every transaction that locks both locks the flow first.
        flow = session.scalar(select(FlowRow).where(FlowRow.id == flow_id).with_for_update(read=True, key_share=True))
        backfill = session.scalar(query.with_for_update(skip_locked=True, key_share=True))
        if flow and backfill:
            advance_locked(session, backfill, flow)


def advance_locked(session: Session, backfill: Backfill, flow: FlowRow) -> None:
    """Advance a running backfill, whose row the caller has locked, as far as it can now."""
    moment = now()
    try:
        with session.begin_nested():
            _advance(session, backfill, flow, moment)
    except Unavailable:
        raise
    except PipelineError as error:
        finish(backfill, BackfillState.FAILED, f"A run could not be made: {error.message}", moment)


def finish(backfill: Backfill, state: BackfillState, reason: str, moment: datetime) -> None:
    """Write the final state of a backfill."""
    backfill.state, backfill.reason, backfill.finished_at = state, reason, moment


def _advance(session: Session, backfill: Backfill, flow: FlowRow, moment: datetime) -> None:
    unsuccessful = _unsuccessful_runs(session, backfill)
    if unsuccessful and backfill.stop_on_failure:
        finish(backfill, BackfillState.FAILED, _reason(unsuccessful[0]), moment)
        return
    slots = 1 if backfill.stop_on_failure else min(parse_stored(flow.entry).max_active_runs, MAX_OPEN_RUNS)
    open_runs = _count_open_runs(session, backfill)
    made = 0
    while open_runs + made < slots and (point := _next(backfill)):
        if not _ensure_run(session, backfill, flow, parse_rfc3339(point), moment):
            return
        made += 1
        _mark_point_done(backfill)
    if made:
        session.flush()
        failpoints.reach(Point.BACKFILL_MADE)
        open_runs = _count_open_runs(session, backfill)
    if not open_runs and not _next(backfill):
        state = BackfillState.FAILED if unsuccessful else BackfillState.SUCCEEDED
        finish(
            backfill,
            state,
            f"{len(unsuccessful)} of {len(backfill.points)} points failed" if unsuccessful else "",
            moment,
        )


def _next(backfill: Backfill) -> str | None:
    """The next point; points to retry come first."""
    if backfill.points_to_retry:
        return str(backfill.points_to_retry[0])
    return str(backfill.points[backfill.made_count]) if backfill.made_count < len(backfill.points) else None


def _mark_point_done(backfill: Backfill) -> None:
    if backfill.points_to_retry:
        backfill.points_to_retry = backfill.points_to_retry[1:]
    else:
        backfill.made_count += 1


def _ensure_run(session: Session, backfill: Backfill, flow: FlowRow, point: datetime, moment: datetime) -> bool:
    """Make sure that this point has a run; whether it has one now.

    An unsuccessful run of this backfill is retried; one of another backfill is deleted and replaced by a run of the flow as
    it is now, as soon as all of its jobs have ended.
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
    if run and run.state in UNSUCCESSFUL and run.backfill_id != backfill.id:
        if session.scalar(select(exists().where(TaskRunRow.run_id == run.id, TaskRunRow.active))):
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
    elif run.state in UNSUCCESSFUL:
        repository.apply_events(session, run, [state_machine.RunRetried()], moment)
    elif not RunState(run.state).final:
        # A run of another backfill, which has ended, that a person has retried.
        run.backfill_id = backfill.id
    return True


def _count_open_runs(session: Session, backfill: Backfill) -> int:
    return session.execute(
        select(func.count()).where(RunRow.backfill_id == backfill.id, RunRow.finished_at.is_(None))
    ).scalar_one()


def _unsuccessful_runs(session: Session, backfill: Backfill) -> Sequence[RunRow]:
    """The unsuccessful runs of the backfill, oldest first, without those of points to retry."""
    again = {parse_rfc3339(point) for point in backfill.points_to_retry}
    found = session.scalars(
        select(RunRow)
        .where(RunRow.backfill_id == backfill.id, RunRow.state.in_(UNSUCCESSFUL))
        .order_by(RunRow.execution_date)
    )
    return [run for run in found if run.execution_date not in again]


def _reason(run: RunRow) -> str:
    ended = "has failed" if run.state == RunState.FAILED else f"was {run.state}"
    return f"the run {run.id} of {rfc3339(run.execution_date)} {ended}"
