"""Which attempts a query asks for, and reading files that grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters import logs
from pipeline_core.clusters.base import LogQuery, NoSuchAttempt, ReplicaKey
from pipeline_core.clusters.logs import LogReader, ReplicaAttempt, chosen

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

    def find() -> Iterator[tuple[Path, str]]:
        yield path, "a"

    more = iter([False, True])
    query = LogQuery(follow=True, finished=lambda: next(more))
    assert list(logs.read(query, find, lambda: next(ends))) == [None, None]
