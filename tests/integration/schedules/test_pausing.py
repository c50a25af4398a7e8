"""Pausing a schedule, letting it go on, and what it says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction
from pipeline_core.database.models import AuditEntry
from pipeline_core.errors import Conflict, NotFound
from pipeline_core.flows.schedules import schedule_state
from tests.clock import TestClock
from tests.integration.schedules.ledger import ADA, Ledger, shown, utc


def test_points_missed_while_paused_are_let_be(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    schedule_state.pause("sales", ADA)
    clock.move(minutes=5)
    assert ledger.tick() == 0
    schedule_state.resume("sales", ADA)
    assert ledger.tick() == 0
    clock.move(minutes=1)
    ledger.tick(1)
    assert ledger.points("sales") == ["01 12:06"]


@pytest.mark.parametrize("catchup", [True, False])
def test_points_missed_while_paused_are_made_up_on_request(ledger: Ledger, clock: TestClock, catchup: bool) -> None:
    ledger.add("sales", catchup=catchup)
    schedule_state.pause("sales", ADA)
    clock.move(minutes=4)
    schedule_state.resume("sales", ADA, replay=True)
    clock.move(minutes=1)
    ledger.tick(1)
    assert ledger.points("sales") == [f"01 12:0{minute}" for minute in range(1, 6)]


def test_a_point_at_the_very_moment_of_the_resume_is_run(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    schedule_state.pause("sales", ADA)
    clock.moment = utc("2026-03-01 12:07:00")
    schedule_state.resume("sales", ADA)
    ledger.tick()
    assert ledger.points("sales") == ["01 12:07"]


@pytest.mark.parametrize(("replay", "points"), [(False, []), (True, ["27 00:00", "28 00:00", "01 00:00"])])
def test_all_points_of_an_imported_schedule_until_its_first_resume_were_missed(
    ledger: Ledger, clock: TestClock, replay: bool, points: list[str]
) -> None:
    ledger.add("sales", imported=True, cron="0 0 * * *", cronjob_start_time="2026-02-27 00:00:00")
    assert ledger.tick() == 0
    schedule_state.resume("sales", ADA, replay=replay)
    ledger.tick(1)
    assert ledger.points("sales") == points
    clock.moment = utc("2026-03-02 00:00:00")
    ledger.tick()
    assert ledger.points("sales") == [*points, "02 00:00"]


def test_a_resume_before_the_start_keeps_the_start(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", imported=True, cron="0 0 * * *", cronjob_start_time="2026-03-05 00:00:00")
    schedule_state.resume("sales", ADA)
    assert ledger.row("sales").next_at == utc("2026-03-05 00:00:00")


def test_pausing_and_resuming_twice_is_doing_so_once(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    schedule_state.pause("sales", ADA)
    schedule_state.pause("sales", ADA)
    clock.move(minutes=5)
    schedule_state.resume("sales", ADA, replay=True)
    schedule_state.resume("sales", ADA)
    ledger.tick(1)
    assert len(ledger.points("sales")) == 5
    with transaction() as session:
        noted = session.execute(select(AuditEntry.action, AuditEntry.actor, AuditEntry.target).order_by(AuditEntry.id))
        assert noted.all() == [("flow.pause", "ada", "sales"), ("flow.resume", "ada", "sales")]


def test_a_flow_without_a_schedule_and_one_of_others_cannot_be_paused(ledger: Ledger) -> None:
    ledger.add("by-hand", cron=None)
    ledger.add("sales")
    for act in (schedule_state.pause, schedule_state.resume):
        with pytest.raises(Conflict, match="by-hand has no schedule"):
            act("by-hand", ADA)
        with pytest.raises(NotFound):
            act("sales", Actor(name="bob", own_only=True))
        with pytest.raises(NotFound):
            act("nobody", ADA)


def missed(count: int, first: list[str], exact: bool = True) -> dict[str, Any]:
    return {"count": count, "exact": exact, "first": first}


def test_a_paused_schedule_says_what_comes_and_what_was_missed(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", cron="0 * * * *", timezone="Asia/Shanghai", imported=True)
    clock.moment = utc("2026-03-01 15:00:00")
    stands = ledger.upcoming("sales", 2)
    assert stands == {
        "flow": "sales",
        "paused": True,
        "cron": "0 * * * *",
        "timezone": "Asia/Shanghai",
        "catchup": True,
        "since": "2026-03-01T12:00:30Z",
        "next": ["2026-03-01T16:00:00Z", "2026-03-01T17:00:00Z"],
        "missed": missed(3, ["2026-03-01T13:00:00Z", "2026-03-01T14:00:00Z", "2026-03-01T15:00:00Z"]),
        "fault": "",
    }


def test_a_schedule_that_goes_says_what_is_still_being_made_up(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales")
    clock.move(minutes=1)
    assert ledger.upcoming("sales")["missed"] == missed(0, []), "it has only just come"
    clock.move(minutes=2)
    assert ledger.upcoming("sales")["missed"]["count"] == 2
    ledger.tick(1)
    assert ledger.upcoming("sales")["missed"] == missed(0, [])


def test_what_was_missed_without_catch_up_will_not_be_made_up(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", catchup=False)
    clock.move(hours=2)
    assert ledger.upcoming("sales")["missed"] == missed(0, [])


def test_very_much_that_was_missed_is_counted_so_far(ledger: Ledger, clock: TestClock) -> None:
    ledger.add("sales", imported=True, cronjob_start_time="2026-01-01 00:00:00")
    found = ledger.upcoming("sales")["missed"]
    assert (found["count"], found["exact"], shown(found["first"])[:2]) == (10_000, False, ["01 00:00", "01 00:01"])


def test_a_flow_without_a_schedule_has_nothing_coming(ledger: Ledger) -> None:
    ledger.add("by-hand", cron=None)
    stands = ledger.upcoming("by-hand")
    assert (stands["cron"], stands["next"], stands["missed"]) == (None, [], missed(0, []))
