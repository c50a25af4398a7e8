"""A log that is read in pieces, its times and its long lines."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.kubernetes.podlogs import GAP, PIECE_BYTES, Resume, utc, whole

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, UTC)


def lines(*stamps: str) -> list[bytes]:
    return [f"2026-03-01T12:00:{stamp}Z line {number}".encode() for number, stamp in enumerate(stamps)]


def since(log: list[bytes], text: str) -> list[bytes]:
    """What the API server gives: all lines from that second on."""
    return [line for line in log if not text or line[:19] >= text[:19].encode()]


@given(
    st.lists(st.integers(0, 59 * 4), max_size=40).map(sorted),
    st.lists(st.integers(0, 40), max_size=5).map(sorted),
)
def test_a_log_that_is_read_in_pieces_loses_and_repeats_nothing(quarters: list[int], cuts: list[int]) -> None:
    log = lines(*(f"{quarter // 4:02}.{quarter % 4 * 25:02}" for quarter in quarters))
    resume = Resume(mark_gaps=True)
    read: list[bytes] = []
    for cut in [*cuts, len(log)]:
        read += resume.new(since(log[:cut], resume.since))
    assert read == log


@given(
    st.lists(st.tuples(st.integers(0, 59 * 4), st.integers(-3, 0)), max_size=40).map(
        lambda pairs: [max(0, quarter + late) for quarter, late in sorted(pairs)]
    ),
    st.lists(st.integers(0, 40), max_size=5).map(sorted),
)
def test_lines_that_are_a_little_out_of_order_are_neither_lost_nor_repeated(
    quarters: list[int], cuts: list[int]
) -> None:
    log = lines("00", *(f"{quarter // 4:02}.{quarter % 4 * 25:02}" for quarter in quarters))
    resume = Resume(mark_gaps=True)
    read: list[bytes] = []
    for cut in [*cuts, len(log)]:
        read += resume.new(since(log[:cut], resume.since))
    assert sorted(read) == sorted(log)


def test_what_a_first_reading_left_out_does_not_come_later() -> None:
    log = lines("05.1", "05.2", "05.3", "05.4")
    resume = Resume()
    assert list(resume.new(log[-2:])) == log[-2:]
    assert list(resume.new(since(log, resume.since))) == []


def test_reading_may_begin_at_a_time() -> None:
    resume = Resume()
    resume.begin(datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC))
    assert resume.since == "2026-03-01T12:00:05Z"
    log = lines("04.9", "05.0", "06")
    assert list(resume.new(log)) == log[1:]
    assert list(resume.new(log)) == []


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2026-03-01T12:00:00.123456789Z", "2026-03-01T12:00:00.123456789Z"),
        ("2026-03-01T12:00:00.123456789+08:00", "2026-03-01T04:00:00.123456789Z"),
        ("2026-03-01T12:00:00-01:30", "2026-03-01T13:30:00Z"),
    ],
)
def test_times_are_converted_to_utc_and_keep_their_digits(stamp: str, expected: str) -> None:
    assert utc(stamp.encode()) == expected.encode()


def test_a_long_line_is_put_together_from_its_pieces() -> None:
    piece = b"x" * PIECE_BYTES
    assert whole(piece + b"2026-03-01T12:00:00.1Z " + piece + b"2026-03-01T12:00:00.2Z end") == piece * 2 + b"end"
    assert whole(piece + b"2026") == piece + b"2026"


def test_lines_that_the_node_has_dropped_between_two_readings_are_marked_once() -> None:
    log = lines("01.5", "02", "03.1", "04.2", "05")
    resume = Resume(mark_gaps=True)
    assert list(resume.new(log[:2])) == log[:2]
    mark, *rest = resume.new(since(log[3:4], resume.since))
    assert (mark.endswith(GAP), rest) == (True, log[3:4])
    assert mark.startswith(b"2026-03-01T12:00:02.01Z "), "its time is just after that of the line before it"
    assert list(resume.new(since(log[3:], resume.since))) == log[4:]
    stored = [*log[:2], mark, *log[3:]]
    again = Resume(mark_gaps=True)
    assert list(again.new(stored)) == stored
    assert again.count == resume.count
    assert list(again.new(since(log[3:], again.since))) == []


def test_a_reading_without_new_lines_marks_nothing() -> None:
    log = lines("01.5", "02")
    resume = Resume(mark_gaps=True)
    assert list(resume.new(log)) == log
    assert list(resume.new([])) == []
    assert list(resume.new(log[1:])) == []
