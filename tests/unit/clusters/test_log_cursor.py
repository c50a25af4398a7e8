"""Cursors of logs: wherever a reading is cut off, the next one goes on with the line that follows."""

from __future__ import annotations

import base64
import zlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.base import LogLine
from pipeline_core.clusters.log_cursor import MAX_TEXT, LogCursor, LogProgress

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@st.composite
def logs(draw: st.DrawFn) -> list[LogLine]:
    """Lines of several origins in one order; those of one are out of order by less than two seconds."""
    found: list[LogLine] = []
    clock = dict.fromkeys("abc", 0.0)
    for number in range(draw(st.integers(0, 30))):
        origin = draw(st.sampled_from("abc"))
        clock[origin] += draw(st.sampled_from([0.0, 0.0, 0.3, 1.0, 5.0]))
        late = draw(st.sampled_from([0.0, 0.0, 0.5, 1.9]))
        moment = START + timedelta(seconds=clock[origin] - late)
        found.append(LogLine(moment, origin, str(number), origin=origin))
    return found


def read(lines: list[LogLine], start: LogCursor, most: int) -> tuple[list[str], LogCursor]:
    """The texts of at most so many new lines, and the cursor after them, as a client has it."""
    progress = LogProgress(start)
    texts: list[str] = []
    for line in lines:
        if len(texts) == most:
            break
        if progress.is_new(line):
            texts.append(line.text)
    return texts, LogCursor.of(str(progress.cursor))


@given(logs(), st.lists(st.integers(0, 8), max_size=6))
def test_wherever_readings_are_cut_off_each_line_is_read_once(lines: list[LogLine], cuts: list[int]) -> None:
    cursor = LogCursor()
    seen: list[str] = []
    for most in [*cuts, 10**6]:
        texts, cursor = read(lines, cursor, most)
        seen += texts
    assert seen == [line.text for line in lines]
    assert read(lines, cursor, 10**6)[0] == []


@given(logs(), st.integers(0, 20), st.sampled_from("abc"))
def test_lines_of_an_origin_that_had_none_before_are_read_whatever_their_time(
    lines: list[LogLine], most: int, hidden: str
) -> None:
    others = [line for line in lines if line.origin != hidden]
    first, cursor = read(others, LogCursor(), most)
    rest, _ = read(lines, cursor, 10**6)
    assert sorted([*first, *rest]) == sorted(line.text for line in lines)


def test_a_line_that_is_open_comes_again_as_a_whole() -> None:
    progress = LogProgress(LogCursor())
    assert progress.is_new(LogLine(START, "a", "one", origin="a"))
    assert progress.is_new(LogLine(START, "a", "tw", open=True, origin="a"))
    again = LogProgress(progress.cursor)
    assert not again.is_new(LogLine(START, "a", "one", origin="a"))
    assert again.is_new(LogLine(START, "a", "two", origin="a"))


def places(replicas: int) -> dict[str, tuple[datetime, int]]:
    return {f"0/worker-{n}-0.main": (START + timedelta(seconds=37 * n % 61), 37 * n % 90) for n in range(replicas)}


def test_a_cursor_of_many_replicas_fits_into_a_request_line() -> None:
    text = str(LogCursor(places(500)))
    assert 0 < len(text) <= MAX_TEXT
    assert LogCursor.of(text).places == places(500)


def test_a_cursor_that_would_be_too_long_stands_for_the_first_line() -> None:
    assert str(LogCursor(places(5000))) == ""
    assert LogCursor.of("") == LogCursor()


@pytest.mark.parametrize(
    "text",
    [
        *("x", "%", "é", "AAAA"),
        *(
            base64.urlsafe_b64encode(zlib.compress(raw)).decode()
            for raw in (
                b"[]",
                b"1",
                b'{"a": 1}',
                b"[1, 2, 3, 4]",
                b'[1, ["a"], [1]]',
                b'[1, ["a"], [1], [1, 2]]',
                b'[1, ["a"], ["x"], [1]]',
                b'[1e400, ["a"], [1], [1]]',
                b"{",
                b" " * 9**7,
            )
        ),
    ],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no cursor"):
        LogCursor.of(text)
