from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipeline_core.errors import WrongParameter
from pipeline_core.flows.notation.cron import Schedule
from pipeline_core.flows.schedules.backfills import BackfillRequest

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAILY = Schedule("0 6 * * *", "Europe/Berlin")


def test_the_points_of_a_request_include_both_ends() -> None:
    request = BackfillRequest(start="2026-02-27 06:00:00", end="2026-03-01T05:00:00Z")
    assert [f"{point:%d %H}" for point in request.points(DAILY, NOON)] == ["27 05", "28 05", "01 05"]


@pytest.mark.parametrize(
    ("start", "end", "errors"),
    [
        ("2026-02-27", "soon", {"from", "to"}),
        ("2026-02-27 00:00:00", "2026-03-01 13:00:01", {"to"}),
        ("2026-02-28 00:00:00", "2026-02-27 00:00:00", {"from"}),
    ],
)
def test_a_request_that_names_no_past_time_is_refused(start: str, end: str, errors: set[str]) -> None:
    with pytest.raises(WrongParameter) as caught:
        BackfillRequest(start=start, end=end).points(DAILY, NOON)
    assert caught.value.errors.keys() == errors
