"""What is said to be due is at least what each tick finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Boolean, Column, DateTime, Integer, Table, delete, select
from sqlalchemy.dialects.postgresql import insert

from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Backfill, Delivery, FlowRow, Job, RunRow, RunSignal, Step, TaskAttempt
from pipeline_core.database.models.base import Base, table
from pipeline_core.flows.runs import admission, attempts, progress
from pipeline_core.flows.schedules import backfill_progress, run_creation
from pipeline_core.hooks import deliveries
from pipeline_core.hooks.deliveries import can_start
from pipeline_core.jobs import cleanup, control, replicas, rollup, sweep
from pipeline_core.operations import due_work
from pipeline_core.settings import Settings

PAST = now() - timedelta(hours=1)


def startable(limit: int) -> list[Any]:
    with transaction() as session:
        return list(session.scalars(select(Delivery.id).where(*can_start()).limit(limit)))


CASES: dict[str, tuple[type[Base], dict[str, Any], Callable[[int], Any]]] = {
    "steps": (Step, {"due_at": PAST, "stage": "gates"}, sweep.due_steps),
    "deliveries": (Delivery, {"status": "waiting", "next_at": PAST}, startable),
    "give-up": (
        Delivery,
        {"status": "waiting", "next_at": PAST + timedelta(days=1), "give_up_at": PAST},
        lambda limit: deliveries.give_up(),
    ),
    "suspensions": (Job, {"suspended_until": PAST}, control.due_suspensions),
    "retries": (Job, {"retry_at": PAST}, replicas.due_retries),
    "reconcile": (Job, {"stage": "cluster", "last_observed_at": PAST}, lambda limit: rollup.stale(now(), limit)),
    "cleanup": (Job, {"cleanup": "pending"}, cleanup.pending),
    "flows": (TaskAttempt, {"pending": True, "due_at": PAST}, attempts.due),
    "flows, by a signal": (RunSignal, {"at": PAST}, lambda limit: signals_found(limit)),
    "admissions": (RunRow, {"state": "waiting"}, admission.flows_with_waiting_runs),
    "schedule": (FlowRow, {"next_at": PAST, "paused": False}, lambda limit: run_creation.find_due_flows(now())),
    "backfills": (Backfill, {"state": "running"}, backfill_progress.flows_with_running_backfill),
}
"""For each tick a row that is something to do, and what finds it."""


def signals_found(limit: int) -> list[Any]:
    add(table(RunRow), {})
    return progress.stale_signals(limit)


def add(rows: Table, given: dict[str, Any]) -> None:
    """A row with the given columns, and with the rows that it refers to."""
    needed = [one for one in rows.columns if not one.nullable and one is not rows.autoincrement_column]
    for key in rows.foreign_key_constraints:
        if set(key.columns) <= set(needed):
            add(key.referred_table, {})
    values = {one.name: any_value(one) for one in needed} | given
    with transaction() as session:
        session.execute(insert(rows).values(**values).on_conflict_do_nothing())


def any_value(column: Column[Any]) -> Any:
    """A value that makes no row due."""
    if isinstance(column.type, DateTime):
        return PAST
    if isinstance(column.type, Boolean):
        return False
    if isinstance(column.type, Integer):
        return 0
    return "succeeded" if column.name in ("state", "status") else "x"


@pytest.fixture
def nothing(service_settings: Settings) -> Iterator[None]:
    """No jobs and no flows, before and after."""
    empty()
    yield
    empty()


def empty() -> None:
    with transaction() as session:
        for model in (RunSignal, Delivery, Job, FlowRow):
            session.execute(delete(model))


def test_every_tick_that_is_left_out_without_work_is_checked_here() -> None:
    assert {name.partition(",")[0] for name in CASES} == due_work.TICKS


@pytest.mark.parametrize("case", CASES)
def test_a_tick_that_finds_something_is_said_to_have_work(nothing: None, case: str) -> None:
    model, columns, find = CASES[case]
    assert due_work.find(now()) == set()
    add(table(model), columns)
    assert case.partition(",")[0] in due_work.find(now())
    assert find(10), "otherwise the row is no work"


def test_a_schedule_is_due_by_the_clock_that_is_given(nothing: None) -> None:
    later = now() + timedelta(hours=1)
    add(table(FlowRow), {"next_at": later, "paused": False})
    assert due_work.find(now()) == set()
    assert due_work.find(later) == {"schedule"}


def test_a_cleanup_that_is_put_off_is_no_work_until_then(nothing: None) -> None:
    later = now() + timedelta(hours=1)
    add(table(Job), {"cleanup": "pending", "kept_until": later})
    assert due_work.find(now()) == set()
    assert due_work.find(later) == {"cleanup"}
