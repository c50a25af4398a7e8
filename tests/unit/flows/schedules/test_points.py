from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.notation.cron import Schedule
from pipeline_core.flows.schedules.points import LATE, ScheduleCursor, first_from

HOURLY = Schedule("@hourly")
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def at(hour: float) -> datetime:
    return DAY + timedelta(hours=hour)


def cursor(
    next_at: float, since: float = 0, *, catchup: bool = True, replay_until: float | None = None
) -> ScheduleCursor:
    return ScheduleCursor(
        schedule=HOURLY,
        next_at=at(next_at),
        since=at(since),
        catchup=catchup,
        replay_until=None if replay_until is None else at(replay_until),
    )


CASES = [
    # what, course, moment, points due
    ("nothing before its time", cursor(2), 1.999, []),
    ("at its time", cursor(2), 2, [2]),
    ("a clock that went back makes nothing due", cursor(5), 3, []),
    ("missed points are made up, oldest first", cursor(2), 5.5, [2, 3, 4, 5]),
    ("the start is inclusive", cursor(0, since=9), 1, [0, 1]),
    ("without catch-up what was missed is let be", cursor(2, catchup=False), 5.5, []),
    ("without catch-up a point is made at its time", cursor(2, catchup=False), 2, [2]),
    ("and a little later, too", cursor(2, catchup=False), 2 + 0.9 / 60, [2]),
    ("but not when it was missed", cursor(2, catchup=False), 2 + 1.1 / 60, []),
    ("nor when it was there before the schedule", cursor(2, since=2.001, catchup=False), 2.002, []),
    ("what is replayed is made up all the same", cursor(2, catchup=False, replay_until=4), 7.5, [2, 3, 4]),
    ("and after it what is due", cursor(2, catchup=False, replay_until=3.5), 6, [2, 3, 6]),
    ("a replay that is over means nothing", cursor(5, catchup=False, replay_until=3.5), 6, [6]),
    ("a replay ends at the moment", cursor(2, catchup=False, replay_until=4), 3, [2, 3]),
]


@pytest.mark.parametrize(("what", "course", "moment", "points"), CASES, ids=[case[0] for case in CASES])
def test_points_are_due(what: str, course: ScheduleCursor, moment: float, points: list[float]) -> None:
    assert list(course.due(at(moment))) == [at(point) for point in points]


@given(
    next_at=st.integers(0, 30),
    since=st.integers(0, 30),
    catchup=st.booleans(),
    replay_until=st.none() | st.floats(0, 30),
    moment=st.floats(0, 30),
)
def test_due_points_are_a_subset_of_the_passed_points_in_order_without_duplicates(
    next_at: int, since: int, catchup: bool, replay_until: float | None, moment: float
) -> None:
    known = cursor(next_at, since, catchup=catchup, replay_until=replay_until)
    due, passed = list(known.due(at(moment))), list(known.passed(at(moment)))
    assert due == sorted(set(due))
    assert due == [point for point in passed if known.is_due(point, at(moment))]
    assert not catchup or due == passed
    assert all(point <= at(moment) for point in due)


def test_without_catch_up_long_past_points_are_not_enumerated() -> None:
    long_ago = ScheduleCursor(
        schedule=Schedule("* * * * *"), next_at=DAY.replace(year=1970), since=DAY.replace(year=1970), catchup=False
    )
    assert list(long_ago.due(DAY)) == [DAY - LATE, DAY]


def test_what_comes_next_is_after_the_moment_and_not_before_the_start() -> None:
    assert list(islice(cursor(2).upcoming(at(4)), 2)) == [at(5), at(6)]
    assert list(islice(cursor(7).upcoming(at(4)), 2)) == [at(7), at(8)]


def test_the_first_point_may_be_the_start_itself() -> None:
    assert first_from(HOURLY, at(3)) == at(3)
    assert first_from(HOURLY, at(3.1)) == at(4)
