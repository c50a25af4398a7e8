from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeline_core.database.models import FlowRow
from pipeline_core.errors import WrongParameter
from pipeline_core.flows.definition.flow import Flow, parse_stored
from pipeline_core.flows.schedules.schedule_state import apply_definition

NOON = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


def definition(**pipeline: Any) -> Flow:
    tasks = [{"name": "only", "job_templete": "logical"}]
    return parse_stored({"pipeline": {"name": "sales", **pipeline}, "tasks": tasks})


def hourly(**pipeline: Any) -> Flow:
    return definition(schedule_type="crontab", cron_time="0 * * * *", **pipeline)


def at(hour: int, day: int = 1) -> datetime:
    return datetime(2026, 3, day, hour, tzinfo=UTC)


def stored(flow: Flow, *, imported: bool = False, moment: datetime = NOON) -> FlowRow:
    row = FlowRow(paused=False, schedule_error="")
    apply_definition(row, None, flow, moment, imported=imported)
    return row


def test_a_new_schedule_begins_at_the_moment() -> None:
    row = stored(hourly())
    assert (row.paused, row.scheduled_since, row.next_at) == (False, NOON, at(13))


def test_a_start_is_inclusive_and_may_lie_in_the_past_and_in_the_future() -> None:
    assert stored(hourly(cronjob_start_time="2026-02-28 08:00:00")).next_at == datetime(2026, 2, 28, 8, tzinfo=UTC)
    assert stored(hourly(cronjob_start_time="2026-03-05 08:00:01")).next_at == at(9, day=5)


def test_an_imported_schedule_comes_in_paused_with_its_start() -> None:
    row = stored(hourly(cronjob_start_time="2026-03-01 01:00:00"), imported=True)
    assert (row.paused, row.next_at) == (True, at(1))


@pytest.mark.parametrize("imported", [False, True])
def test_a_flow_without_a_schedule_has_no_points_and_is_not_paused(imported: bool) -> None:
    row = stored(definition(), imported=imported)
    assert (row.paused, row.scheduled_since, row.next_at) == (False, None, None)


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("paused", [False, True])
def test_a_schedule_that_stays_as_it_is_goes_on_where_it_was(imported: bool, paused: bool) -> None:
    row = stored(hourly())
    row.paused, row.next_at, row.replay_until = paused, at(9), at(11)
    apply_definition(row, hourly(), hourly(describe="new"), at(20), imported=imported)
    assert (row.paused, row.scheduled_since, row.next_at, row.replay_until) == (paused, NOON, at(9), at(11))


@pytest.mark.parametrize(
    "changed",
    [
        {"cron_time": "30 * * * *"},
        {"timezone": "Asia/Kolkata"},
        {"cron_time": "30 * * * *", "timezone": "UTC", "catchup": False},
    ],
)
def test_a_changed_schedule_begins_anew(changed: dict[str, Any]) -> None:
    row = stored(hourly())
    row.next_at = at(2)
    after = definition(**{"schedule_type": "crontab", "cron_time": "0 * * * *", **changed})
    apply_definition(row, hourly(), after, at(20), imported=False)
    assert (row.scheduled_since, row.next_at) == (at(20), at(20) + timedelta(minutes=30))


@pytest.mark.parametrize("cron", [" 0  * * * *", "@hourly", "0 0-23/1 * * 0-7"])
def test_another_spelling_of_the_same_points_is_no_change(cron: str) -> None:
    row = stored(hourly())
    row.next_at = at(9)
    apply_definition(row, hourly(), definition(schedule_type="crontab", cron_time=cron), at(20), imported=True)
    assert (row.paused, row.scheduled_since, row.next_at) == (False, NOON, at(9))


def test_a_changed_schedule_does_not_run_its_past_again() -> None:
    start = {"cronjob_start_time": "2026-03-01 03:00:00"}
    row, before = stored(hourly(**start)), hourly(**start)
    row.next_at = at(15)
    after = definition(schedule_type="crontab", cron_time="30 * * * *", **start)
    apply_definition(row, before, after, at(20), imported=False)
    assert row.next_at == at(20) + timedelta(minutes=30)


def test_a_change_that_comes_in_paused_can_be_resumed_with_its_past() -> None:
    start = {"cronjob_start_time": "2026-03-01 03:00:00"}
    row, before = stored(hourly(**start)), hourly(**start)
    row.next_at = at(15)
    after = definition(schedule_type="crontab", cron_time="30 * * * *", **start)
    apply_definition(row, before, after, at(20), imported=True)
    assert (row.paused, row.next_at) == (True, at(3) + timedelta(minutes=30))


def test_a_start_moved_back_alone_goes_back_and_leaves_the_schedule_as_old_as_it_is() -> None:
    row = stored(hourly(cronjob_start_time="2026-03-01 10:00:00"))
    row.next_at = at(20)
    apply_definition(
        row,
        hourly(cronjob_start_time="2026-03-01 10:00:00"),
        hourly(cronjob_start_time="2026-03-01 03:00:00"),
        at(19),
        imported=False,
    )
    assert (row.scheduled_since, row.next_at) == (NOON, at(3))


def test_a_start_before_the_moment_of_a_schedule_that_had_none_goes_back() -> None:
    row = stored(hourly())
    apply_definition(row, hourly(), hourly(cronjob_start_time="2026-03-01 03:00:00"), at(19), imported=False)
    assert row.next_at == at(3)


@pytest.mark.parametrize(("start", "next_at"), [("2026-03-01 12:00:00", at(15)), ("2026-03-01 18:00:00", at(18))])
def test_a_start_moved_on_passes_points_and_repeats_none(start: str, next_at: datetime) -> None:
    before = hourly(cronjob_start_time="2026-03-01 10:00:00")
    row = stored(before)
    row.next_at = at(15)
    apply_definition(row, before, hourly(cronjob_start_time=start), at(19), imported=False)
    assert row.next_at == next_at


def test_a_start_taken_away_repeats_nothing() -> None:
    before = hourly(cronjob_start_time="2026-03-01 03:00:00")
    row = stored(before)
    row.next_at = at(15)
    apply_definition(row, before, hourly(), at(19), imported=False)
    assert row.next_at == at(15)


def test_a_schedule_taken_away_and_set_again_is_a_new_one() -> None:
    row = stored(hourly(), imported=True)
    apply_definition(row, hourly(), definition(), at(14), imported=False)
    assert (row.paused, row.next_at) == (False, None)
    apply_definition(row, definition(), hourly(), at(19), imported=False)
    assert (row.paused, row.scheduled_since, row.next_at) == (False, at(19), at(19))


def test_a_changed_schedule_stays_paused_and_an_imported_change_pauses() -> None:
    changed = hourly(timezone="Asia/Kolkata")
    row = stored(hourly())
    row.paused = True
    apply_definition(row, hourly(), changed, at(14), imported=False)
    assert row.paused
    row.paused = False
    apply_definition(row, changed, hourly(), at(14), imported=True)
    assert row.paused


def test_any_new_definition_clears_the_error_of_the_schedule() -> None:
    row = stored(hourly())
    row.schedule_error, row.schedule_error_at = "global_env: …", NOON
    apply_definition(row, hourly(), hourly(), at(14), imported=False)
    assert (row.schedule_error, row.schedule_error_at) == ("", None)


@pytest.mark.parametrize("start", ["1970-01-01 00:00:00", "2199-12-31 23:59:59"])
@pytest.mark.parametrize("timezone", ["UTC", "Asia/Shanghai", "America/New_York"])
def test_a_start_may_lie_far_off(start: str, timezone: str) -> None:
    assert stored(hourly(cronjob_start_time=start, timezone=timezone)).next_at is not None


@pytest.mark.parametrize("start", ["0001-01-01 00:00:00", "1969-12-31 23:59:59", "2200-01-01 00:00:00"])
def test_a_start_outside_the_accepted_years_is_refused(start: str) -> None:
    with pytest.raises(WrongParameter, match="must lie in the years 1970 to 2199"):
        hourly(cronjob_start_time=start)
