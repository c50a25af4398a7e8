"""Runs of schedules: made at their time, once, oldest first, and fairly."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

from pipeline_core.database import transaction, wakeups
from pipeline_core.flows import lookup
from pipeline_core.flows.runs import creation
from pipeline_core.flows.schedules import run_creation
from pipeline_core.flows.schedules.run_creation import (
    MAX_OPEN_RUNS,
    MAX_POINTS,
    RETRY_AFTER,
    create_runs,
    find_due_flows,
)
from pipeline_core.flows.states import Trigger
from pipeline_core.operations import retention
from tests.clock import TestClock
from tests.integration.schedules.ledger import Ledger, entry, shown, utc


def test_a_run_is_made_at_its_time_and_not_before(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", cron="5 12 * * *")
    clock.moment = utc("2026-03-01 12:04:59.999")
    assert ledger.tick() == 0
    clock.moment = utc("2026-03-01 12:05:00")
    assert ledger.tick() == 1
    (run,) = ledger.runs("sales")
    assert (run.execution_date, run.runner, run.creator, run.state) == (clock.moment, "ada", "ada", "running")
    assert ledger.row("sales").next_at == utc("2026-03-02 12:05:00")
    assert ledger.tick() == 0


def test_a_point_is_run_once_when_many_ticks_look_at_the_same_time(ledger: Ledger, clock: TestClock) -> None:
    names = [f"flow-{number}" for number in range(30)]
    for name in names:
        ledger.add(name)
    beats = 6
    together = Barrier(beats)

    def beat() -> int:
        together.wait()
        return ledger.tick()

    for _ in range(3):
        clock.move(minutes=2)
        with ThreadPoolExecutor(beats) as pool:
            for future in [pool.submit(beat) for _ in range(beats)]:
                future.result()
        ledger.tick()
    for name in names:
        assert ledger.points(name) == [f"01 12:0{minute}" for minute in range(1, 7)]


def test_two_that_have_found_the_same_flow_make_its_run_once(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    moment = clock.move(minutes=1)
    due = find_due_flows(moment)
    assert [create_runs(due, moment) for _ in range(2)] == [(1, 1), (0, 0)]


def test_a_run_that_is_there_is_not_made_again_wherever_the_schedule_stands(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    clock.move(minutes=3)
    ledger.tick()
    ledger.change("sales", next_at=utc("2026-03-01 12:02:00"))
    assert ledger.tick() == 0
    assert ledger.points("sales") == ["01 12:01", "01 12:02", "01 12:03"]
    assert ledger.row("sales").next_at == utc("2026-03-01 12:04:00")


def test_a_clock_that_is_set_back_repeats_nothing_and_one_that_goes_on_misses_nothing(
    ledger: Ledger, clock: TestClock
) -> None:
    ledger.add("sales")
    clock.move(minutes=2)
    ledger.tick()
    clock.move(minutes=-10)
    assert ledger.tick() == 0
    clock.move(minutes=11)
    ledger.tick()
    assert ledger.points("sales") == ["01 12:01", "01 12:02", "01 12:03"]


def test_missed_points_are_made_up_oldest_first_and_in_order(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", cron="0 * * * *")
    clock.move(hours=MAX_POINTS * 2 + 1)
    due = find_due_flows(clock.moment)
    assert create_runs(due, clock.moment) == (1, MAX_POINTS)
    assert ledger.points("sales") == [f"01 {hour}:00" for hour in range(13, 13 + MAX_POINTS)]
    while ledger.tick():
        pass
    assert len(ledger.points("sales")) == MAX_POINTS * 2 + 1


def test_the_start_is_inclusive_and_reaches_into_the_past(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", cron="0 0 * * *", cronjob_start_time="2026-02-26 00:00:00")
    while ledger.tick():
        pass
    assert ledger.points("sales") == ["26 00:00", "27 00:00", "28 00:00", "01 00:00"]


def test_a_start_that_is_moved_back_fills_the_gap_and_repeats_nothing(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", cron="0 0 * * *", cronjob_start_time="2026-02-28 00:00:00")
    ledger.tick(1)
    assert ledger.points("sales") == ["28 00:00", "01 00:00"]
    ledger.replace("sales", cron="0 0 * * *", cronjob_start_time="2026-02-26 00:00:00")
    ledger.tick(1)
    assert ledger.points("sales") == ["26 00:00", "27 00:00", "28 00:00", "01 00:00"]


def test_without_catch_up_nothing_that_was_missed_is_made(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", catchup=False)
    clock.moment = utc("2026-03-01 12:01:02")
    ledger.tick()
    clock.moment = utc("2026-03-01 15:20:10")
    ledger.tick()
    assert ledger.points("sales") == ["01 12:01", "01 15:20"]


def test_a_flow_with_ten_thousand_missed_points_holds_up_no_other(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("behind", cronjob_start_time="2026-02-20 00:00:00")
    ledger.add("also-behind", cronjob_start_time="2026-02-28 00:00:00")
    names = [f"on-time-{number}" for number in range(20)]
    for name in names:
        ledger.add(name)
    moment = clock.move(seconds=30)
    due = find_due_flows(moment)
    assert list(due)[:20] != ["behind"]
    assert set(list(due)[20:]) == {ledger.row("behind").id, ledger.row("also-behind").id}
    for flow_id, most in due.items():
        create_runs({flow_id: most}, moment)
    assert all(ledger.points(name) == ["01 12:01"] for name in names)
    assert len(ledger.points("behind")) == len(ledger.points("also-behind")) == MAX_POINTS


def test_help_is_called_for_where_many_are_due_and_begins_at_the_other_end(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[wakeups.Wakeup] = []
    wakeups.publish_with(called.extend)
    monkeypatch.setattr(run_creation, "MAX_WITHOUT_HELP", 3)
    for number in range(3):
        ledger.add(f"flow-{number}")
    find_due_flows(clock.move(minutes=1))
    assert called == []
    ledger.add("flow-3", cron="* * * * *", cronjob_start_time="2026-03-01 12:01:00")
    due = list(find_due_flows(clock.moment))
    assert called == [wakeups.SchedulesDue()]
    assert list(find_due_flows(clock.moment, helping=True)) == due[::-1]
    assert called == [wakeups.SchedulesDue()], "a helper calls for nobody"
    assert run_creation.create_due_runs(0, helping=True) == 4


def test_missed_points_are_made_up_no_faster_than_runs_end(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("behind", cronjob_start_time="2026-02-20 00:00:00", max_active_runs=3)
    while ledger.tick(1):
        pass
    assert len(ledger.runs("behind")) == MAX_OPEN_RUNS
    ledger.admit("behind")
    ledger.end_running("behind")
    while ledger.tick(1):
        pass
    assert Counter(ledger.states("behind")) == {"succeeded": 3, "running": 3, "waiting": MAX_OPEN_RUNS - 3}
    assert ledger.points("behind")[:2] == ["20 00:00", "20 00:01"]


def test_a_stored_flow_that_cannot_be_read_holds_up_no_other_and_is_seen(ledger: Ledger, clock: TestClock) -> None:
    for name in ("wrong", "right"):
        ledger.add(name)
    ledger.change("wrong", entry=entry("wrong", cron="99 * * * *"))
    clock.move(minutes=1)
    assert ledger.tick(1) == 1
    assert ledger.points("right") == ["01 12:01"]
    assert "pipeline.cron_time" in ledger.row("wrong").schedule_error
    assert "pipeline.cron_time" in ledger.upcoming("wrong")["fault"]


def test_a_run_that_cannot_be_made_is_tried_again_and_then_made_up(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.add("sales", cron="*/10 * * * *")
    ledger.add("other", cron="*/10 * * * *")
    create = creation.create

    def broken(session: object, flow: lookup.FlowRow, **options: object) -> str | None:
        made = create(session, flow, **options)  # type: ignore[arg-type]
        if flow.key == "sales":
            raise KeyError("a mistake of ours")
        return made

    with monkeypatch.context() as patched:
        patched.setattr(run_creation.creation, "create", broken)
        clock.moment = utc("2026-03-01 12:10:00")
        assert ledger.tick(1) == 1
        assert ledger.points("other") == ["01 12:10"]
        assert ledger.points("sales") == []
        assert ledger.row("sales").schedule_error == "A run could not be made: KeyError."
    assert ledger.tick() == 0, "not at once"
    clock.move(seconds=RETRY_AFTER.total_seconds())
    assert ledger.tick() == 1
    assert ledger.points("sales") == ["01 12:10"]
    assert ledger.row("sales").schedule_error == ""


def test_a_schedule_that_has_changed_while_it_was_due_owes_only_the_new_one(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    moment = clock.move(minutes=3)
    due = find_due_flows(moment)
    ledger.replace("sales", cron="30 * * * *")
    assert create_runs(due, moment) == (0, 0)
    clock.moment = utc("2026-03-01 12:30:00")
    ledger.tick()
    assert ledger.points("sales") == ["01 12:30"]


def test_a_flow_that_is_gone_or_has_no_schedule_any_more_owes_nothing(ledger: Ledger, clock: TestClock) -> None:
    for name in ("deleted", "by-hand"):
        ledger.add(name)
    moment = clock.move(minutes=3)
    due = find_due_flows(moment)
    with transaction() as session:
        session.delete(lookup.find(session, "deleted", lock=True))
    ledger.replace("by-hand", cron=None)
    assert create_runs(due, moment) == (0, 0)
    assert ledger.runs("by-hand") == []


def test_runs_are_of_the_flow_as_it_is_when_they_are_made(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    clock.move(minutes=1)
    ledger.tick()
    ledger.replace("sales", cron="* * * * *", describe="new")
    clock.move(minutes=1)
    ledger.tick()
    with transaction() as session:
        entries = [
            session.get_one(creation.RunDefinitionRow, run.id).entry["pipeline"].get("describe")
            for run in ledger.runs("sales")
        ]
    assert entries == [None, "new"]


SAVING = [
    # cron, zone, from, to, points (all UTC but for the cron)
    ("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00", "2026-03-30 12:00", ["28 01:30", "29 01:00", "30 00:30"]),
    ("*/15 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29 12:00", ["29 01:00"]),
    ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "2026-10-26 12:00", ["25 00:30", "26 01:30"]),
    ("30 1 * * *", "America/New_York", "2026-11-01 00:00", "2026-11-02 12:00", ["01 05:30", "02 06:30"]),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00", "2026-10-04 12:00", ["03 15:30"]),
    ("0 12 * * *", "Asia/Shanghai", "2026-03-01 00:00", "2026-03-02 12:00", ["01 04:00", "02 04:00"]),
]


@pytest.mark.parametrize(("cron", "zone", "start", "end", "points"), SAVING)
def test_clocks_that_are_put_forward_and_back_run_each_point_once_at_its_time(
    ledger: Ledger, clock: TestClock, cron: str, zone: str, start: str, end: str, points: list[str]
) -> None:
    clock.moment = utc(start)
    ledger.add("sales", cron=cron, timezone=zone)
    while clock.moment < utc(end):
        clock.move(minutes=15)
        due = ledger.row("sales").next_at
        made = ledger.tick()
        assert made == (due is not None and due <= clock.moment)
        assert not made or due > clock.moment - timedelta(minutes=15)
    assert ledger.points("sales") == points


def test_manual_runs_are_no_points_of_the_schedule(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    clock.moment = utc("2026-03-01 12:01:00")
    with transaction() as session:
        flow = lookup.find(session, "sales")
        creation.create(session, flow, trigger=Trigger.MANUAL, execution_date=clock.moment, runner="bob")
    assert ledger.tick() == 1
    assert len(ledger.runs("sales", Trigger.MANUAL)) == 1


def test_points_whose_runs_were_deleted_for_their_age_get_none_again(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", cron="0 0 * * *", cronjob_start_time="2026-03-01 00:00:00", max_active_runs=10)
    clock.move(days=2)
    ledger.tick(1)
    assert ledger.points("sales") == ["01 00:00", "02 00:00", "03 00:00"]
    ledger.end_running("sales")
    clock.move(days=2)
    assert retention.delete_runs(clock.moment, 500) == 3
    ledger.change("sales", next_at=utc("2026-02-28 00:00:00"))
    assert shown(ledger.upcoming("sales")["missed"]["first"]) == ["28 00:00", "04 00:00", "05 00:00"]
    ledger.tick(1)
    assert ledger.points("sales") == ["28 00:00", "04 00:00", "05 00:00"]
