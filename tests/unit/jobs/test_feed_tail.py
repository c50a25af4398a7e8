from __future__ import annotations

import pytest

from pipeline_core.jobs.feed_tail import BUSY_ENTRIES, LOOK_SECONDS, MAX_LOOK_SECONDS, READ_AT_ONCE, pause


@pytest.mark.parametrize(
    ("found", "waiting", "seconds"),
    [
        (0, 50, LOOK_SECONDS),
        (BUSY_ENTRIES - 1, 50, LOOK_SECONDS),
        (BUSY_ENTRIES, 1, LOOK_SECONDS),
        (BUSY_ENTRIES, 10, 0.8),
        (BUSY_ENTRIES, 1000, MAX_LOOK_SECONDS),
        (READ_AT_ONCE, 1000, 0.0),
    ],
)
def test_looks_are_rarer_the_more_readers_are_to_be_answered(found: int, waiting: int, seconds: float) -> None:
    assert pause(found, waiting) == pytest.approx(seconds)
