"""Which runs of a flow start beside each other, and which wait, are blocked, or are overtaken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event

from pipeline_core.auth.actor import Actor
from pipeline_core.common.ids import new_run_id
from pipeline_core.database import engine as database
from pipeline_core.database import transaction
from pipeline_core.database.models import FlowRow, RunRow
from pipeline_core.flows.runs import admission, control
from pipeline_core.flows.states import RunState, TaskState, Trigger
from pipeline_core.states import JobState
from tests.builders import flow_entry
from tests.flows import begin, store
from tests.integration.flows.conftest import Engine

ADMIN = Actor(name="admin", admin=True)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def points(flow: FlowRow, count: int, trigger: Trigger = Trigger.SCHEDULE) -> list[str]:
    """Runs for so many points of a schedule."""
    return [begin(flow, trigger, execution_date=FIRST + timedelta(days=day)) for day in range(count)]


def states(engine: Engine, runs: list[str]) -> list[str]:
    return [engine.run(run_id).state for run_id in runs]


@pytest.mark.parametrize("trigger", [Trigger.SCHEDULE, Trigger.BACKFILL])
def test_so_many_runs_for_points_go_on_at_a_time_the_oldest_first(engine: Engine, trigger: Trigger) -> None:
    runs = points(store(flow_entry(f"two-{trigger}", {"a": []}, max_active_runs=2)), 4, trigger)
    engine.go()
    assert states(engine, runs) == ["running", "running", "waiting", "waiting"]
    engine.turn(runs[1], "a", JobState.FAILED)
    assert states(engine, runs) == ["running", "failed", "running", "waiting"]
    control.stop(runs[0], ADMIN)
    engine.go()
    assert states(engine, runs) == ["stopped", "failed", "running", "running"]


def test_runs_by_hand_have_room_of_their_own(engine: Engine) -> None:
    flow = store(flow_entry("hands", {"a": []}, max_manual_runs=1))
    scheduled = points(flow, 1)
    by_hand = [begin(flow), begin(flow, Trigger.TASK, only="a"), begin(flow, Trigger.DEBUG, only="a")]
    engine.go()
    assert states(engine, scheduled) == ["running"]
    assert states(engine, by_hand) == ["running", "waiting", "waiting"]
    engine.turn(by_hand[0], "a", JobState.SUCCEEDED)
    assert states(engine, by_hand) == ["succeeded", "running", "waiting"]


def test_a_run_that_depends_on_the_past_says_what_holds_it_up_until_that_is_dismissed(engine: Engine) -> None:
    runs = points(store(flow_entry("past", {"a": []}, depends_on_past=True, max_active_runs=3)), 3)
    engine.go()
    assert states(engine, runs) == ["running", "blocked", "blocked"]
    engine.turn(runs[0], "a", JobState.FAILED)
    assert [engine.run(run_id).blocked_by for run_id in runs] == ["", runs[0], runs[1]]
    control.dismiss(runs[0], ADMIN)
    engine.go()
    assert states(engine, runs) == ["failed", "running", "blocked"]
    assert engine.run(runs[1]).blocked_by == ""
    engine.turn(runs[1], "a", JobState.SUCCEEDED)
    assert states(engine, runs) == ["failed", "succeeded", "running"]


def test_a_retried_run_lets_those_that_depend_on_it_go_on(engine: Engine) -> None:
    runs = points(store(flow_entry("unblocked", {"a": []}, depends_on_past=True)), 2)
    engine.go()
    engine.turn(runs[0], "a", JobState.FAILED)
    control.retry(runs[0], ADMIN)
    engine.go()
    engine.turn(runs[0], "a", JobState.SUCCEEDED)
    assert states(engine, runs) == ["succeeded", "running"]


def test_a_retried_run_waits_for_its_place_as_a_new_one_does(engine: Engine) -> None:
    runs = points(store(flow_entry("retried", {"a": [], "b": ["a"]}, max_active_runs=1)), 3)
    engine.go()
    engine.turn(runs[0], "a", JobState.FAILED)
    assert states(engine, runs) == ["failed", "running", "waiting"]
    control.retry(runs[0], ADMIN)
    engine.go()
    assert states(engine, runs) == ["waiting", "running", "waiting"]
    engine.turn(runs[1], "a", JobState.FAILED)
    assert states(engine, runs) == ["running", "failed", "waiting"]
    control.mark(runs[1], "a", TaskState.SKIPPED, ADMIN)
    engine.go()
    assert states(engine, runs) == ["running", "waiting", "waiting"]
    engine.turn(runs[0], "a", JobState.SUCCEEDED)
    engine.turn(runs[0], "b", JobState.SUCCEEDED)
    assert states(engine, runs) == ["succeeded", "running", "waiting"]
    assert engine.states(runs[1]) == {"a": "skipped", "b": "waiting"}
    assert len(engine.jobs(runs[1], "b")) == 1


def test_runs_that_newer_ones_overtake_expire_or_are_stopped(engine: Engine) -> None:
    flow = store(flow_entry("overtaken", {"a": []}, expired_limit=2))
    runs = points(flow, 2)
    engine.go()
    assert states(engine, runs) == ["running", "waiting"]
    runs += [begin(flow, Trigger.SCHEDULE, execution_date=FIRST + timedelta(days=day)) for day in (2, 3)]
    engine.go()
    assert states(engine, runs) == ["stopped", "expired", "running", "waiting"]
    assert engine.job(*engine.jobs(runs[0], "a"))[0].state == "stopped"
    assert engine.states(runs[1]) == {"a": "stopped"}
    assert engine.run(runs[1]).finished_at


def test_a_long_past_is_not_read(engine: Engine) -> None:
    flow = store(flow_entry("long", {"a": []}, depends_on_past=True, expired_limit=3))
    with transaction() as session:
        session.add_all(
            RunRow(
                id=new_run_id(FIRST + timedelta(hours=hour)),
                flow_id=flow.id,
                trigger=Trigger.SCHEDULE,
                execution_date=FIRST - timedelta(hours=hour),
                state=RunState.SUCCEEDED,
                creator="maker",
                runner="maker",
                created_at=FIRST,
                finished_at=FIRST,
            )
            for hour in range(1, 2001)
        )
    runs = points(flow, 2)
    rows = 0

    def count(connection: object, cursor: object, *_: object) -> None:
        nonlocal rows
        rows += max(getattr(cursor, "rowcount", 0), 0)

    event.listen(database.engine(), "after_cursor_execute", count)
    try:
        assert admission.admit(flow.id) == runs[:1]
    finally:
        event.remove(database.engine(), "after_cursor_execute", count)
    assert rows < 50
