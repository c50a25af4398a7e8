from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.notation.cron import (
    MAX_BACKFILL,
    NICKNAMES,
    Schedule,
    execution_date,
    first_instant,
    read_instant,
)
from pipeline_core.flows.notation.errors import NotationError

BERLIN, NEW_YORK, LORD_HOWE, APIA = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"
MINUTE = timedelta(minutes=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shown(points: list[datetime]) -> list[str]:
    return [f"{point:%Y-%m-%d %H:%M}" for point in points]


SAVING = [
    # expression, zone, from, to (UTC), points (UTC)
    (
        "30 2 * * *",
        BERLIN,
        "2026-03-28",
        "2026-03-30 12:00",
        ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"],
    ),
    ("*/15 2 * * *", BERLIN, "2026-03-29", "2026-03-29 12:00", ["2026-03-29 01:00"]),
    ("0,30 2,3 * * *", BERLIN, "2026-03-29", "2026-03-29 12:00", ["2026-03-29 01:00", "2026-03-29 01:30"]),
    ("30 2 * * *", BERLIN, "2026-10-24 12:00", "2026-10-26 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
    (
        "0 * * * *",
        BERLIN,
        "2026-10-24 23:00",
        "2026-10-25 03:00",
        ["2026-10-24 23:00", "2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 02:00", "2026-10-25 03:00"],
    ),
    (
        "*/15 * * * *",
        BERLIN,
        "2026-10-25 00:30",
        "2026-10-25 02:20",
        [f"2026-10-25 {time}" for time in ("00:30", "00:45", "01:00", "01:15", "01:30", "01:45", "02:00", "02:15")],
    ),
    (
        "*/30 2 * * *",
        BERLIN,
        "2026-10-25",
        "2026-10-25 12:00",
        [f"2026-10-25 0{h}:{m}0" for h in (0, 1) for m in (0, 3)],
    ),
    ("0,30 2 * * *", BERLIN, "2026-10-25", "2026-10-25 12:00", ["2026-10-25 00:00", "2026-10-25 00:30"]),
    ("45 * * * *", LORD_HOWE, "2026-04-04 14:00", "2026-04-04 16:00", [f"2026-04-04 {t}" for t in ("14:45", "15:15")]),
    ("30 1 * * *", NEW_YORK, "2026-11-01", "2026-11-02 12:00", ["2026-11-01 05:30", "2026-11-02 06:30"]),
    ("15 2 * * *", LORD_HOWE, "2026-10-03", "2026-10-04 12:00", ["2026-10-03 15:30"]),
    ("0 12 30 12 *", APIA, "2011-12-28", "2012-01-02", ["2011-12-30 10:00"]),
    ("0 0 * * *", "Asia/Shanghai", "2026-03-01", "2026-03-02 16:00", ["2026-03-01 16:00", "2026-03-02 16:00"]),
]


@pytest.mark.parametrize(("cron", "zone", "start", "end", "points"), SAVING)
def test_skipped_times_are_due_after_the_gap_and_doubled_ones_once(
    cron: str, zone: str, start: str, end: str, points: list[str]
) -> None:
    assert shown(list(Schedule(cron, zone).between(utc(start), utc(end)))) == points


@pytest.mark.parametrize(
    ("cron", "step", "name"),
    [
        ("*/90 * * * *", 90, "minute"),
        ("0,5-10/60 * * * *", 60, "minute"),
        ("0 */24 * * *", 24, "hour"),
        ("0 0 */32 * *", 32, "day"),
        ("0 0 1 */13 *", 13, "month"),
        ("0 0 * * */8", 8, "weekday"),
    ],
)
def test_a_step_greater_than_its_field_can_hold_is_refused(cron: str, step: int, name: str) -> None:
    with pytest.raises(NotationError, match=f"whose step {step} in the {name} is too large"):
        Schedule(cron)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 0 * * *", " 0  0 * *\t* "),
        ("0 0 * * *", "@daily"),
        ("0 0 * * *", "00 0 * * 0-7"),
        ("0 0 * * *", "0 0 1-31 * *"),
        ("0 0 * JAN,feb mon", "0 0 * 1-2 1"),
        ("0 0 * * 7", "0 0 * * sun"),
        ("0 0 * * 7#1", "0 0 * * SUN#1"),
        ("*/15 * * * *", "0-59/15 * * * *"),
    ],
)
def test_another_spelling_has_the_same_points(one: str, other: str) -> None:
    assert Schedule(one).same_points(Schedule(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 0 * * *", "0 1 * * *"),
        ("*/15 * * * *", "0,15,30,45 2 * * *"),
        ("*/15 2 * * *", "0,15,30,45 2 * * *"),
        ("0 0 1 * 1", "0 0 */31 * 1"),
        ("0 0 L * *", "0 0 31 * *"),
    ],
)
def test_what_differs_at_some_time_is_not_the_same(one: str, other: str) -> None:
    assert not Schedule(one).same_points(Schedule(other))


def test_another_time_zone_has_other_points() -> None:
    assert not Schedule("0 0 * * *").same_points(Schedule("0 0 * * *", BERLIN))


def test_a_point_at_the_very_end_of_a_gap_is_there_and_not_after_it() -> None:
    schedule, end_of_gap = Schedule("30 2 * * *", BERLIN), utc("2026-03-29 01:00")
    assert next(schedule.between(end_of_gap, end_of_gap)) == end_of_gap
    assert schedule.next(end_of_gap, 1) == [utc("2026-03-30 00:30")]


@pytest.mark.parametrize(
    "cron",
    [
        *(
            "",
            "* * * *",
            "* * * * * *",
            "99 99 * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
        ),
        *("0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6 *", "@reboot", "@never", "a * * * *", "*/0 * * * *", "5-1 * * * *"),
        *("-1 * * * *", "1,, * * * *", "1.5 * * * *", "* * * FOO *", "٣ * * * *", "0 0 29 2 MON#5L"),
    ],
)
def test_what_is_no_cron_or_never_comes_is_refused(cron: str) -> None:
    with pytest.raises(NotationError):
        Schedule(cron)


@pytest.mark.parametrize("cron", ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6 *"])
def test_a_day_that_its_months_never_have_is_refused_as_such(cron: str) -> None:
    with pytest.raises(NotationError, match="which never comes"):
        Schedule(cron)


@pytest.mark.parametrize("zone", ["", "Europe", "Mars/Base", "../etc/passwd", "localtime"])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(NotationError, match="time zone"):
        Schedule("@daily", zone)


@pytest.mark.parametrize(
    ("cron", "count"),
    [
        ("@hourly", 24 * 365),
        ("@daily", 365),
        ("@midnight", 365),
        ("@weekly", 52),
        ("@monthly", 12),
        ("@yearly", 1),
        ("@annually", 1),
        ("0 9-18 * * 1-5", 261 * 10),
        ("0,30 * 1 * *", 12 * 48),
        ("0 0 * JAN,feb MON", 8),
        ("0 0 29 2 *", 0),
        ("0 0 L * *", 12),
        ("0 0 LW * *", 12),
        ("0 0 * * 5L", 12),
        ("0 0 * * MON#1", 12),
        ("0 0 * * mon#5", 4),
        (" 0  0 1 1 * ", 1),
    ],
)
def test_what_is_usual_in_cron_is_read(cron: str, count: int) -> None:
    assert len(list(Schedule(cron).between(utc("2026-01-01"), utc("2026-12-31 23:59")))) == count


def field(text: str, low: int, high: int) -> set[int]:
    numbers: set[int] = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        start, _, stop = (f"{low}-{high}" if span == "*" else span).partition("-")
        last = int(stop) if stop else high if step else int(start)
        numbers |= set(range(int(start), last + 1, int(step or 1)))
    return numbers


def reference(cron: str, zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """Every minute of the wall is tried; a slow restatement of the rules."""
    minutes, hours, days, months, weekdays = cron.split()
    wanted = field(minutes, 0, 59), field(hours, 0, 23), field(months, 1, 12)
    on_days, on_weekdays = field(days, 1, 31), {number % 7 for number in field(weekdays, 0, 7)}
    either = not days.startswith("*") and not weekdays.startswith("*")
    seen = set()
    wall = start.replace(tzinfo=None) - timedelta(days=2)
    while wall <= end.replace(tzinfo=None) + timedelta(days=2):
        on_day = wall.day in on_days
        on_weekday = wall.isoweekday() % 7 in on_weekdays
        if not (on_day or on_weekday if either else on_day and on_weekday) or wall.month not in wanted[2]:
            wall += timedelta(days=1)
            continue
        for hour in sorted(wanted[1]):
            for minute in sorted(wanted[0]):
                aware = wall.replace(hour=hour, minute=minute, tzinfo=ZoneInfo(zone))
                while aware.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) != aware.replace(
                    tzinfo=None
                ):
                    aware += MINUTE
                instant = aware.replace(fold=0).astimezone(UTC)
                if start <= instant <= end and instant not in seen:
                    seen.add(instant)
                    yield instant
        wall += timedelta(days=1)


@pytest.mark.parametrize(
    "zone", [BERLIN, NEW_YORK, LORD_HOWE, "Asia/Shanghai", "America/Sao_Paulo", "Africa/Casablanca"]
)
@pytest.mark.parametrize(
    "cron", ["30 2 * * *", "0 */6 * * *", "15,45 1-3 * 3,10-11 0,6", "0 0 13 * 5", "5/20 3 */2 * 1-5"]
)
def test_years_of_points_are_those_of_the_reference(cron: str, zone: str) -> None:
    start, end = utc("2017-01-01"), utc("2021-12-31")
    assert list(Schedule(cron, zone).between(start, end)) == list(reference(cron, zone, start, end))


INSTANTS = st.integers(0, 12 * 365 * 86_400).map(lambda seconds: utc("2018-01-01") + timedelta(seconds=seconds))
CRONS = st.sampled_from(["* * * * *", "30 2 * * *", "0 */6 * * *", "*/10 1-3 * 3,10,11 *", "0 0 * * 0"])
ZONES = st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "UTC"])


@given(CRONS, ZONES, INSTANTS)
def test_asking_again_from_each_point_gives_the_same_points(cron: str, zone: str, start: datetime) -> None:
    schedule = Schedule(cron, zone)
    points = schedule.next(start, 12)
    assert points == sorted(set(points))
    assert all(point > start for point in points)
    assert [schedule.next(before, 1)[0] for before in [start, *points[:-1]]] == points
    assert list(schedule.between(points[0], points[-1])) == points


def test_missing_points_are_the_oldest_without_a_run() -> None:
    schedule, have = Schedule("@daily"), {utc("2026-03-02"), utc("2026-03-03")}
    assert schedule.missing(utc("2026-03-01"), utc("2026-03-31"), have, 2) == [utc("2026-03-01"), utc("2026-03-04")]


def test_a_backfill_has_both_its_ends_and_a_bound() -> None:
    schedule = Schedule("@daily", "Asia/Shanghai")
    assert schedule.backfill(utc("2026-02-28 16:00"), utc("2026-03-01 16:00")) == [
        utc("2026-02-28 16:00"),
        utc("2026-03-01 16:00"),
    ]
    with pytest.raises(NotationError, match=f"more than {MAX_BACKFILL}"):
        Schedule("* * * * *").backfill(utc("2000-01-01"), utc("2026-01-01"))
    with pytest.raises(NotationError, match="after its end"):
        schedule.backfill(utc("2026-01-02"), utc("2026-01-01"))


def test_times_of_the_wall_are_read_and_told_in_the_flows_time_zone() -> None:
    assert read_instant("2026-03-01 00:00:00", "Asia/Shanghai") == utc("2026-02-28 16:00")
    assert execution_date(utc("2026-02-28 16:00"), "Asia/Shanghai") == "2026-03-01 00:00:00"
    assert first_instant(datetime.fromisoformat("2026-03-29T02:30"), ZoneInfo(BERLIN)) == utc("2026-03-29 01:00")
    for text in ("2026-03-01", "2026-03-01T00:00:00", "", "2026-02-30 00:00:00"):
        with pytest.raises(NotationError, match="of the form"):
            read_instant(text, "UTC")


def test_every_nickname_is_a_schedule() -> None:
    assert all(Schedule(name).next(utc("2026-01-01"), 1) for name in NICKNAMES)
