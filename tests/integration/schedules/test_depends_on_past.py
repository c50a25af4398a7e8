"""From points of a schedule to runs that start: limits, dependence on the past, and the ways out of it."""

from __future__ import annotations

import pytest

from pipeline_core.database import transaction
from pipeline_core.flows import lookup
from pipeline_core.flows.runs import control, creation
from pipeline_core.flows.states import TaskState, Trigger
from pipeline_core.states import JobState
from tests.clock import TestClock
from tests.integration.schedules.ledger import ADA, Ledger


def advance(ledger: Ledger, clock: TestClock, minutes: int = 1) -> list[str]:
    """Let time go on, and all happen that is due; the states of the scheduled runs."""
    clock.move(minutes=minutes)
    ledger.tick(1)
    ledger.admit("sales")
    return ledger.states("sales")


def test_no_more_scheduled_runs_at_a_time_than_allowed_and_the_oldest_first(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", max_active_runs=2)
    assert advance(ledger, clock, 4) == ["running", "running", "waiting", "waiting"]
    ledger.end(ledger.runs("sales")[1].id)
    ledger.admit("sales")
    assert ledger.states("sales") == ["running", "succeeded", "running", "waiting"]


@pytest.mark.parametrize("way_out", ["dismiss", "retry", "mark"])
def test_a_failed_run_blocks_the_next_visibly_and_there_are_ways_out(
    ledger: Ledger, clock: TestClock, way_out: str
) -> None:
    ledger.add("sales", depends_on_past=True, max_active_runs=5)
    assert advance(ledger, clock) == ["running"]
    ledger.end_running("sales", JobState.FAILED)
    assert advance(ledger, clock, 2) == ["failed", "blocked", "blocked"]
    first, second, third = ledger.runs("sales")
    assert (second.blocked_by, third.blocked_by) == (first.id, second.id)
    if way_out == "dismiss":
        control.dismiss(first.id, ADA)
    elif way_out == "mark":
        control.mark(first.id, "only", TaskState.SUCCEEDED, ADA)
        ledger.admit("sales")
    else:
        control.retry(first.id, ADA)
        assert advance(ledger, clock, 0) == ["running", "blocked", "blocked"]
        ledger.end_running("sales")
    ledger.admit("sales")
    assert ledger.states("sales")[1:] == ["running", "blocked"]
    ledger.end_running("sales")
    ledger.admit("sales")
    assert ledger.states("sales")[1:] == ["succeeded", "running"]


def test_the_first_run_of_a_schedule_depends_on_none(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", depends_on_past=True)
    with transaction() as session:
        flow = lookup.find(session, "sales")
        creation.create(session, flow, trigger=Trigger.MANUAL, execution_date=clock.moment, runner="bob")
    assert advance(ledger, clock) == ["running"]
    assert ledger.states("sales", Trigger.MANUAL) == ["running"], "and manual runs take no room"


def test_blocked_runs_hold_no_room_so_that_a_retry_of_the_past_is_no_deadlock(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", depends_on_past=True, max_active_runs=1)
    advance(ledger, clock, 3)
    ledger.end_running("sales", JobState.FAILED)
    assert advance(ledger, clock, 0) == ["failed", "blocked", "blocked"]
    control.retry(ledger.runs("sales")[0].id, ADA)
    ledger.admit("sales")
    for number in range(3):
        assert ledger.states("sales")[number] == "running"
        ledger.end_running("sales")
        ledger.admit("sales")
    assert ledger.states("sales") == ["succeeded"] * 3


def test_only_the_newest_runs_stay_where_a_flow_says_so(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", expired_limit=2, max_active_runs=1)
    assert advance(ledger, clock) == ["running"]
    assert advance(ledger, clock) == ["running", "waiting"]
    assert advance(ledger, clock) == ["stopped", "running", "waiting"]
    assert advance(ledger, clock, 3)[:4] == ["stopped", "stopped", "expired", "expired"]


def test_points_that_were_missed_wait_for_room_and_run_in_their_order(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", cron="0 0 * * *", cronjob_start_time="2026-02-24 00:00:00")
    advance(ledger, clock, 0)
    order = []
    for _ in range(6):
        (running,) = [run for run in ledger.runs("sales") if run.state == "running"]
        order.append(f"{running.execution_date:%m-%d}")
        ledger.end(running.id)
        ledger.admit("sales")
    assert order == ["02-24", "02-25", "02-26", "02-27", "02-28", "03-01"]
