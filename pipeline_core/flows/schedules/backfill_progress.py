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
from pipeline_core.database.models import BackfillState, StoredBackfill, StoredFlow, StoredRun, TaskAttempt
from pipeline_core.errors import PipelineError, Unavailable
from pipeline_core.flows.definition.documents import stored_flow
from pipeline_core.flows.runs import creation, engine, repository
from pipeline_core.flows.schedules.scheduling import LOST
from pipeline_core.flows.states import RunState, Trigger

MOST_OPEN = 100
"""So many runs of a backfill may wait or run, whatever `max_active_runs` says."""


def running(limit: int) -> list[str]:
    """Some of the flows that have a running backfill, chosen by lot, so that each has its turn. Raises Unavailable."""
    query = select(StoredBackfill.flow_id).where(StoredBackfill.state == BackfillState.RUNNING)
    with transaction() as session:
        return list(session.scalars(query.order_by(func.random()).limit(limit)))


@again_if_contended
def look_at(flow_id: str) -> None:
    """Let the flow's running backfill come on, if there is one and nobody else is at it. Raises Unavailable."""
    query = select(StoredBackfill).where(
        StoredBackfill.flow_id == flow_id, StoredBackfill.state == BackfillState.RUNNING
    )
    with transaction() as session:
        if session.scalar(query.with_only_columns(StoredBackfill.id)) is None:
            return
        # The flow first, as everybody takes them who holds both.
        flow = session.scalar(
            select(StoredFlow).where(StoredFlow.id == flow_id).with_for_update(read=True, key_share=True)
        )
        backfill = session.scalar(query.with_for_update(skip_locked=True, key_share=True))
        if flow and backfill:
            come_on(session, backfill, flow)


def come_on(session: Session, backfill: StoredBackfill, flow: StoredFlow) -> None:
    """Let a running backfill, whose row is the caller's, come on as far as it can now."""
    moment = now()
    try:
        with session.begin_nested():
            _come_on(session, backfill, flow, moment)
    except Unavailable:
        raise
    except PipelineError as error:
        finish(backfill, BackfillState.FAILED, f"A run could not be made: {error.message}", moment)


def finish(backfill: StoredBackfill, state: BackfillState, reason: str, moment: datetime) -> None:
    """Write down how a backfill has ended."""
    backfill.state, backfill.reason, backfill.finished_at = state, reason, moment


def _come_on(session: Session, backfill: StoredBackfill, flow: StoredFlow, moment: datetime) -> None:
    lost = _lost(session, backfill)
    if lost and backfill.stop_on_failure:
        finish(backfill, BackfillState.FAILED, _why(lost[0]), moment)
        return
    room = 1 if backfill.stop_on_failure else min(stored_flow(flow.entry).max_active_runs, MOST_OPEN)
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


def _next(backfill: StoredBackfill) -> str | None:
    """The next point, those first that are to be done again."""
    if backfill.again:
        return str(backfill.again[0])
    return str(backfill.points[backfill.made]) if backfill.made < len(backfill.points) else None


def _move_on(backfill: StoredBackfill) -> None:
    if backfill.again:
        backfill.again = backfill.again[1:]
    else:
        backfill.made += 1


def _run(session: Session, backfill: StoredBackfill, flow: StoredFlow, point: datetime, moment: datetime) -> bool:
    """See that this point has a run; whether it has.

    A run that came to nothing is retried when this backfill made it, and else gives way to one of the flow as it is now,
    as soon as nothing of it is left.
    """
    run = session.scalar(
        select(StoredRun)
        .where(
            StoredRun.flow_id == flow.id,
            StoredRun.trigger == Trigger.BACKFILL,
            StoredRun.execution_date == point,
        )
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )
    if run and run.state in LOST and run.backfill_id != backfill.id:
        if session.scalar(select(exists().where(TaskAttempt.run_id == run.id, TaskAttempt.owed))):
            return False
        session.execute(delete(StoredRun).where(StoredRun.id == run.id))
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
        repository.take_in(session, run, [engine.Retried()], moment)
    elif not RunState(run.state).final:
        # Another backfill made it, which has ended since; somebody has retried it.
        run.backfill_id = backfill.id
    return True


def _in_course(session: Session, backfill: StoredBackfill) -> int:
    return session.execute(
        select(func.count()).where(StoredRun.backfill_id == backfill.id, StoredRun.finished_at.is_(None))
    ).scalar_one()


def _lost(session: Session, backfill: StoredBackfill) -> Sequence[StoredRun]:
    """The backfill's runs that came to nothing, oldest first, but for those that are to be done again."""
    again = {parse_rfc3339(point) for point in backfill.again}
    found = session.scalars(
        select(StoredRun)
        .where(StoredRun.backfill_id == backfill.id, StoredRun.state.in_(LOST))
        .order_by(StoredRun.execution_date)
    )
    return [run for run in found if run.execution_date not in again]


def _why(run: StoredRun) -> str:
    ended = "has failed" if run.state == RunState.FAILED else f"was {run.state}"
    return f"the run {run.id} of {rfc3339(run.execution_date)} {ended}"
