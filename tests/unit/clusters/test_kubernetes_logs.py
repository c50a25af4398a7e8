"""Pieces of logs, the archive, and how long logs are waited for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.kubernetes import archive as archives
from pipeline_core.clusters.kubernetes.archive import Archive, ArchiveUnavailable, RunLog
from pipeline_core.clusters.kubernetes.archiving import Archiving, standing, waited
from pipeline_core.clusters.kubernetes.podlogs import PIECE_BYTES, Resume, utc, whole

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, UTC)
MAIN = RunLog("pod", 1, "main", 0)


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
    resume = Resume()
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
    resume = Resume()
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
def test_times_are_told_in_utc_and_keep_their_digits(stamp: str, expected: str) -> None:
    assert utc(stamp.encode()) == expected.encode()


def test_a_long_line_is_put_together_from_its_pieces() -> None:
    piece = b"x" * PIECE_BYTES
    assert whole(piece + b"2026-03-01T12:00:00.1Z " + piece + b"2026-03-01T12:00:00.2Z end") == piece * 2 + b"end"
    assert whole(piece + b"2026") == piece + b"2026"


def stored(archive: Archive, job_id: str, log: RunLog) -> list[bytes]:
    return list(archive.lines(job_id, log))


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_the_archive_gives_back_what_was_stored_run_by_run(tmp_path: Path) -> None:
    archive = Archive(f"file://{tmp_path}/archive")
    assert archive.runs("j1") == {}
    runs = [RunLog("pod", 0, "init.0", 0), MAIN, RunLog("pod", 1, "main", 1)]
    texts = [[], lines("01", "02"), [*lines("03"), b"2026-03-01T12:00:04Z \xff\0"]]
    for run, text in reversed(list(zip(runs, texts, strict=True))):
        archive.store("j1", run, text)
    archive.store("j2", RunLog("other", 0, "main", 0), [])
    assert list(archive.runs("j1")) == runs
    assert [stored(archive, "j1", run) for run in runs] == texts
    assert archive.has("j1", runs[2])
    assert not archive.has("j1", RunLog("pod", 1, "main", 2))
    archive.remove("j1")
    archive.remove("j1")
    assert (archive.runs("j1"), len(archive.runs("j2"))) == ({}, 1)


@pytest.mark.parametrize("url", ["file://{}/archive", "memory://{}/archive"])
def test_a_log_is_read_from_its_pieces_until_it_is_whole(tmp_path: Path, url: str) -> None:
    archive = Archive(url.format(tmp_path))
    log = lines("01", "02.5", "02.51", "03.123456789", "04")
    archive.add("j1", MAIN, 0, log[:2])
    archive.add("j1", MAIN, 2, log[2:4])
    assert not archive.has("j1", MAIN)
    assert stored(archive, "j1", MAIN) == log[:4]
    archive.store("j1", MAIN, log)
    assert archive.has("j1", MAIN)
    assert stored(archive, "j1", MAIN) == log
    assert len(archive.runs("j1")[MAIN]) == 1
    archive.remove("j1")


def test_pieces_that_two_made_at_once_are_read_once(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    log = lines("01", "02", "02", "02", "02")
    archive.add("j1", MAIN, 0, log[:3])
    archive.add("j1", MAIN, 1, log[1:4])
    archive.add("j1", MAIN, 1, log[1:])
    archive.add("j1", MAIN, 3, log[3:4])
    assert stored(archive, "j1", MAIN) == log


def test_many_small_pieces_become_one_and_large_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "SMALL_BYTES", 200)
    monkeypatch.setattr(archives, "MOST_SMALL", 3)
    archive = Archive(str(tmp_path))
    log = lines(*(f"{second:02}" for second in range(40)))
    archive.add("j1", MAIN, 0, log[:10])
    counts = []
    for number, line in enumerate(log[10:], 10):
        archive.add("j1", MAIN, number, [line])
        counts.append(len(files(tmp_path)))
    assert stored(archive, "j1", MAIN) == log
    assert max(counts) < 12
    assert files(tmp_path)[0].endswith("main.0000.000000000000-000000000009.piece")


def test_a_piece_that_is_replaced_while_it_is_read_costs_nothing(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    log = lines("01", "02", "03", "04")
    for start in (0, 2):
        archive.add("j1", MAIN, start, log[start : start + 2])
    reading = archive.lines("j1", MAIN)
    read = [next(reading)]
    archive.store("j1", MAIN, log)
    assert read + list(reading) == log


def test_a_log_that_breaks_off_is_not_stored(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"first"
        raise ClusterUnavailable("broken")

    archive = Archive(str(tmp_path))
    archive.add("j1", MAIN, 0, lines("01"))
    with pytest.raises(ClusterUnavailable):
        archive.store("j1", MAIN, broken())
    assert stored(archive, "j1", MAIN) == lines("01")
    assert len(files(tmp_path)) == 1


def test_an_archive_that_cannot_be_written_is_away(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("not a directory")
    with pytest.raises(ArchiveUnavailable, match="archive"):
        Archive(f"{tmp_path}/archive").store("j1", MAIN, [])


@pytest.mark.parametrize("age", [59, 61])
def test_logs_are_waited_for_from_the_later_of_the_end_and_the_stop(age: int) -> None:
    late, early = NOW - timedelta(seconds=age), NOW - timedelta(hours=1)
    assert waited(NOW, early, late) == waited(NOW, late, early) == waited(NOW, late, None) == age


@pytest.mark.parametrize(
    ("error", "seconds", "expected"),
    [
        (ClusterUnavailable("no node"), 59, Archiving.UNDER_WAY),
        (ClusterUnavailable("no node"), 61, Archiving.DONE),
        (ArchiveUnavailable("no bucket"), 59, Archiving.UNDER_WAY),
        (ArchiveUnavailable("no bucket"), 61, Archiving.LATE),
        (ArchiveUnavailable("no bucket"), 24 * 3600 + 1, Archiving.DONE),
    ],
)
def test_an_archive_is_waited_for_longer_than_a_node(error: Any, seconds: float, expected: Archiving) -> None:
    assert standing(error, seconds, 60.0) is expected
