from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from pipeline_core.common.clock import parse_rfc3339, rfc3339


def test_times_are_shown_in_utc_with_z() -> None:
    assert rfc3339(datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))) == "2030-01-02T01:04:05Z"
    assert rfc3339(datetime(2030, 1, 2, 3, 4, 5, 670000, tzinfo=UTC)) == "2030-01-02T03:04:05.670000Z"
    assert rfc3339(None) is None


@pytest.mark.parametrize(
    "text",
    ["2030-01-02T03:04:05Z", "2030-01-02t05:04:05+02:00", "2030-01-02T03:04:05.000z", "2030-01-01T22:04:05-05:00"],
)
def test_every_way_of_writing_a_time_is_read(text: str) -> None:
    assert parse_rfc3339(text) == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2030-01-02",
        "2030-01-02T03:04:05",
        "2030-13-02T03:04:05Z",
        "2030-W01-1",
        "20300102T030405Z",
        "9999-12-31T23:59:59-23:00",
        "٢٠٣٠-01-02T03:04:05Z",
        "1893553445",
        "2030-01-02T03:04:05Z\n",
    ],
)
def test_what_is_no_rfc_3339_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rfc3339(text)
