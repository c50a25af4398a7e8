"""The archive of logs: whole logs, pieces, and places that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.kubernetes import archive as archives
from pipeline_core.clusters.kubernetes.archive import Archive, ArchiveUnavailable, RunLog
from pipeline_core.clusters.records import LIMIT_SENTENCE
from pipeline_core.errors import ConfigurationError

MAIN = RunLog("pod", 1, "main", 0)


def lines(*stamps: str) -> list[bytes]:
    return [f"2026-03-01T12:00:{stamp}Z line {number}".encode() for number, stamp in enumerate(stamps)]


def stored(archive: Archive, job_id: str, log: RunLog) -> list[bytes]:
    return list(archive.lines(job_id, log))


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_the_archive_returns_the_stored_logs_of_each_run(tmp_path: Path) -> None:
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
    assert archive.size("j1") == sum(len(line) + 1 for line in log[:4])
    archive.store("j1", MAIN, log)
    assert archive.size("j1") == sum(len(line) + 1 for line in log)
    assert archive.size("j2") == 0
    assert archive.has("j1", MAIN)
    assert stored(archive, "j1", MAIN) == log
    assert len(archive.runs("j1")[MAIN]) == 1
    archive.remove("j1")


def test_overlapping_pieces_of_two_writers_are_read_once(tmp_path: Path) -> None:
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


def test_a_piece_that_is_replaced_while_it_is_read_loses_no_line(tmp_path: Path) -> None:
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


def test_an_archive_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("not a directory")
    with pytest.raises(ArchiveUnavailable, match="archive"):
        Archive(f"{tmp_path}/archive").store("j1", MAIN, [])


def test_a_log_is_cut_at_the_limit_and_says_so_once(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path), limit=80)
    log = lines("01", "02", "03", "04", "05")
    cut = [*log[:2], b"2026-03-01T12:00:03Z " + LIMIT_SENTENCE.format(limit=80).encode()]
    archive.add("j1", MAIN, 0, log[:2])
    archive.add("j1", MAIN, 2, log[2:4])
    archive.add("j1", MAIN, 4, log[4:])
    assert stored(archive, "j1", MAIN) == cut
    archive.store("j1", MAIN, [*archive.lines("j1", MAIN), *log[3:]])
    assert stored(archive, "j1", MAIN) == cut
    archive.store("j1", MAIN, log)
    assert stored(archive, "j1", MAIN) == cut


def test_a_log_within_the_limit_is_kept_whole(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path), limit=56)
    archive.store("j1", MAIN, lines("01", "02"))
    assert stored(archive, "j1", MAIN) == lines("01", "02")


@pytest.mark.parametrize("whole", [True, False])
def test_what_was_written_long_before_is_left_out(tmp_path: Path, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline_core.clusters.logs._BLOCK", 64)
    archive = Archive(str(tmp_path))
    log = lines(*(f"{second:02}" for second in range(60)))
    if whole:
        archive.store("j1", MAIN, log)
    else:
        for first in range(0, 60, 10):
            archive.add("j1", MAIN, first, log[first : first + 10])
    found = list(archive.lines("j1", MAIN, datetime(2026, 3, 1, 12, 0, 55, tzinfo=UTC)))
    assert log[55:] == found[-5:]
    assert len(found) <= 20


def test_a_place_of_an_unknown_kind_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(ConfigurationError, match=r"PIPELINE_ARCHIVE_URL .*pipeline-service\[s3\]"):
        Archive("cloud://bucket/logs")


def test_an_error_of_the_file_system_s_own_kind_says_that_the_archive_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class EndpointConnectionError(Exception):
        """Like that of botocore."""

    def find(self: MemoryFileSystem, path: str) -> None:
        raise EndpointConnectionError("could not connect")

    monkeypatch.setattr(MemoryFileSystem, "find", find)
    with pytest.raises(ArchiveUnavailable, match="could not connect"):
        Archive("memory://nowhere").store("j1", MAIN, lines("01"))


def test_what_fails_to_be_read_from_the_cluster_is_no_fault_of_the_archive(tmp_path: Path) -> None:
    def log() -> Iterator[bytes]:
        yield lines("01")[0]
        raise ClusterUnavailable("the node does not answer")

    archive = Archive(f"file://{tmp_path}")
    with pytest.raises(ClusterUnavailable) as failed:
        archive.store("j1", MAIN, log())
    assert type(failed.value) is ClusterUnavailable
    assert files(tmp_path) == []
