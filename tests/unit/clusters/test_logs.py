"""Which attempts a query asks for, and reading files that grow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters import logs
from pipeline_core.clusters.base import LogLine, LogQuery, NoSuchAttempt, ReplicaKey
from pipeline_core.clusters.logs import LogFile, LogReader, ReplicaAttempt, chosen

TRIES = st.lists(
    st.tuples(
        st.integers(0, 2), st.builds(ReplicaKey, st.sampled_from(["ps", "w"]), st.integers(0, 2), st.integers(0, 2))
    )
)


def one(index: int, of_taskset: int, of_replica: int) -> ReplicaAttempt:
    return of_taskset, ReplicaKey("w", index, of_replica)


KNOWN = [one(0, 0, 0), one(0, 0, 1), one(0, 1, 0), one(1, 0, 0), one(1, 1, 0)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (LogQuery(), {one(0, 1, 0), one(1, 1, 0)}),
        (LogQuery(attempt=0), {one(0, 0, 0), one(1, 0, 0)}),
        (LogQuery(attempt=1), {one(0, 0, 1), one(1, 1, 0)}),
        (LogQuery(attempt=2), {one(0, 1, 0)}),
        (LogQuery(index=1), {one(1, 1, 0)}),
        (LogQuery(index=1, attempt=0), {one(1, 0, 0)}),
        (LogQuery(role="nobody"), set()),
        (LogQuery(role="nobody", attempt=0), set()),
    ],
)
def test_replica_attempts_are_counted_over_both_kinds_of_retries(
    query: LogQuery, expected: set[ReplicaAttempt]
) -> None:
    assert chosen(query, KNOWN) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (LogQuery(attempt=3), "no attempt 3: the last is 2"),
        (LogQuery(index=1, attempt=2), "no attempt 2: the last is 1"),
        (LogQuery(role="nobody", attempt=1), "no attempt 1: nothing has run yet"),
    ],
)
def test_an_attempt_that_does_not_exist_is_not_found(query: LogQuery, message: str) -> None:
    with pytest.raises(NoSuchAttempt, match=message):
        chosen(query, KNOWN)


@given(TRIES)
def test_every_replica_attempt_is_found_by_its_number_and_by_no_other(attempts: list[ReplicaAttempt]) -> None:
    numbered = [found for number in range(9) for found in _chosen(number, attempts)]
    assert sorted(numbered) == sorted(set(attempts))
    places = {(key.role, key.index) for _, key in attempts}
    assert {(key.role, key.index) for _, key in chosen(LogQuery(), attempts)} == places


def _chosen(number: int, attempts: list[ReplicaAttempt]) -> frozenset[ReplicaAttempt]:
    try:
        return chosen(LogQuery(attempt=number), attempts)
    except NoSuchAttempt:
        return frozenset()


def test_a_line_longer_than_a_block_is_read_once_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_BLOCK", 64)
    path = tmp_path / "log"
    path.write_text("2026-03-01T12:00:00Z " + "x" * 300)
    reader = LogReader(path, "a")
    assert list(reader.rest()) == []
    with path.open("a") as file:
        file.write("y\n2026-03-01T12:00:01Z z\n")
    assert [line.text for line in reader.rest()] == ["x" * 300 + "y", "z"]


def test_a_silent_log_yields_none_at_intervals_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FOLLOW_SECONDS", 0.0)
    monkeypatch.setattr(logs, "IDLE_SECONDS", 0.0)
    ends = iter([False, True, True])
    path = tmp_path / "log"

    def find() -> Iterator[LogFile]:
        yield LogFile(path, "a")

    more = iter([False, True])
    query = LogQuery(follow=True, finished=lambda: next(more))
    assert list(logs.read(query, find, lambda: next(ends))) == [None, None]


START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(second: float, text: str, kind: str = " ") -> str:
    return f"{(START + timedelta(seconds=second)).isoformat(timespec='microseconds')[:-6]}Z{kind}{text}\n"


def test_an_open_line_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(record(0, "one") + record(1, "tw", "+"))
    reader = LogReader(path, "a")
    assert [(line.text, line.open) for line in reader.rest()] == [("one", False), ("tw", True)]
    assert list(reader.rest()) == []
    with path.open("a") as file:
        file.write(record(2, "o", "+") + record(3, "") + record(4, "thr", "+") + record(5, "ee"))
    assert list(reader.rest()) == [
        LogLine(START + timedelta(seconds=3), "a", "o"),
        LogLine(START + timedelta(seconds=5), "a", "three"),
    ]


@pytest.mark.parametrize(
    ("tail", "texts"), [(0, []), (1, ["ee"]), (2, ["ccdd", "ee"]), (3, ["bb", "ccdd", "ee"]), (4, None), (9, None)]
)
@pytest.mark.parametrize("block", [1, 40, 10_000])
def test_the_last_lines_are_counted_with_their_parts(
    tmp_path: Path, tail: int, texts: list[str] | None, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_BLOCK", block)
    path = tmp_path / "log"
    records = [("aa", "+"), ("", " "), ("bb", " "), ("cc", "+"), ("dd", " "), ("ee", "+")]
    path.write_text("".join(record(second, *one) for second, one in enumerate(records)))
    reader = LogReader(path, "a")
    reader.skip_to_last(tail)
    assert [line.text for line in reader.rest()] == (["aa", "bb", "ccdd", "ee"] if texts is None else texts)


@given(
    st.lists(st.integers(0, 40), max_size=60).map(sorted), st.integers(-1, 41), st.sampled_from([1, 64, 400]), st.data()
)
def test_what_was_written_since_is_found_in_few_steps(
    seconds: list[int], since: int, block: int, data: st.DataObject
) -> None:
    lengths = data.draw(st.lists(st.integers(0, 90), min_size=len(seconds), max_size=len(seconds)))
    text = "".join(record(second, "x" * length) for second, length in zip(seconds, lengths, strict=True)).encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logs, "_BLOCK", block)
        place = logs.place_of(START + timedelta(seconds=since), BytesIO(text))
    assert place == 0 or text[place - 1 : place] == b"\n"
    left_out = text[:place].splitlines()
    wanted = START + timedelta(seconds=since)
    assert all(logs.time_of(line) < wanted for line in left_out)


def test_a_large_log_is_not_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(record(second, "x" * 1000) for second in range(5000)))
    with path.open("rb") as file:
        assert file.seek(0, 2) - logs.place_of(START + timedelta(seconds=5000), file) <= 2 * 64 * 1024


def test_a_query_since_a_time_has_no_earlier_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(record(second, str(second)) for second in range(10)))
    query = LogQuery(since=START + timedelta(seconds=8))
    assert [line and line.text for line in logs.read(query, lambda: [LogFile(path, "a")], lambda: True)] == ["8", "9"]


def line(source: str, text: str, *, goes_on: bool = False) -> LogLine:
    return LogLine(START, source, text, open=goes_on)


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        ([], []),
        ([line("a", "1"), None, line("b", "2")], ["a | 1\n", "", "b | 2\n"]),
        ([line("a", "1/", goes_on=True), None, line("a", "2")], ["a | 1/", "", "2\n"]),
        ([line("a", "1/", goes_on=True), line("b", "x"), line("a", "2")], ["a | 1/", "\nb | x\n", "a | 2\n"]),
        ([line("a", "1/", goes_on=True)], ["a | 1/", "\n"]),
    ],
)
def test_an_open_line_goes_on_where_it_stopped_unless_another_comes_between(
    lines: list[LogLine | None], texts: list[str]
) -> None:
    assert list(logs.as_text(lines, lambda line: f"{line.source} | ")) == texts


def test_what_a_job_has_put_in_place_of_its_log_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    query = LogQuery(tail=3)
    path.symlink_to("/etc/hostname")
    assert list(LogReader(path, "w-0").rest()) == []
    path.unlink()
    os.mkfifo(path)
    reader = LogReader(path, "w-0")
    reader.skip_to_last(query.tail or 0)
    reader.skip_to_time(datetime.now(UTC))
    assert list(reader.rest()) == []
    path.unlink()
    stamp = "2026-03-01T12:00:00.000000Z"
    path.write_bytes(b"no record\nZ\n2026-99-99T12:00:00Z x\n" + f"{stamp} one\n".encode() + b"\xff\n")
    assert [line.text for line in LogReader(path, "w-0").rest()] == ["one"]
    reader = LogReader(path, "w-0")
    reader.skip_to_time(datetime(2026, 3, 1, tzinfo=UTC))
    assert [line.text for line in reader.rest()] == ["one"]
    path.write_bytes(b"x" * 3_000_000)
    assert list(LogReader(path, "w-0").rest()) == []
