from __future__ import annotations

import pytest

from pipeline_core.jobs.feed_tail import BUSY_ENTRIES_PER_SECOND, LOOK_SECONDS, MAX_LOOK_SECONDS, READ_AT_ONCE, pause


@pytest.mark.parametrize(
    ("found", "waiting", "seconds"),
    [
        (0, 50, LOOK_SECONDS),
        (1, 50, LOOK_SECONDS),
        (BUSY_ENTRIES_PER_SECOND, 1, LOOK_SECONDS),
        (BUSY_ENTRIES_PER_SECOND, 10, 0.8),
        (BUSY_ENTRIES_PER_SECOND, 1000, MAX_LOOK_SECONDS),
        (READ_AT_ONCE, 1000, 0.0),
    ],
)
def test_looks_are_rarer_the_more_readers_are_to_be_answered(found: int, waiting: int, seconds: float) -> None:
    assert pause(found, 1.0, waiting) == pytest.approx(seconds)


@pytest.mark.parametrize("before", [LOOK_SECONDS, MAX_LOOK_SECONDS])
@pytest.mark.parametrize(("per_second", "seconds"), [(20, LOOK_SECONDS), (60, 0.8), (200, MAX_LOOK_SECONDS)])
def test_a_pause_goes_by_how_many_come_a_second_whatever_the_pause_before(
    before: float, per_second: int, seconds: float
) -> None:
    assert pause(round(per_second * before), before, 50) == pytest.approx(seconds)
