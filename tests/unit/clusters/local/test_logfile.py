"""Lines on their way from a container's pipe to its log file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.clusters.local import logfile
from pipeline_core.clusters.local.logfile import LogFile

REAL_WRITE = os.write


def put(log: LogFile, data: bytes) -> None:
    """Have the log read this from a pipe."""
    reading, writing = os.pipe2(os.O_NONBLOCK)
    try:
        REAL_WRITE(writing, data)
        log.take(reading)
    finally:
        os.close(reading)
        os.close(writing)


def texts(path: Path) -> list[str]:
    return [line.partition(" ")[2] for line in path.read_text().splitlines()]


def test_each_line_has_its_time_and_long_ones_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "LINE_LIMIT", 4)
    log = LogFile(str(tmp_path / "log"))
    put(log, b"abcdef\n\nrest")
    assert texts(tmp_path / "log") == ["abcd", "ef", ""]
    put(log, b"!\n")
    log.close()
    assert texts(tmp_path / "log") == ["abcd", "ef", "", "rest", "!"]
    assert log.tail == "abcdef\n\nrest!"


def test_times_never_go_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([2_000_000_000, 1_000_000_000])
    monkeypatch.setattr("time.time_ns", lambda: next(moments))
    log = LogFile(str(tmp_path / "log"))
    put(log, b"one\n")
    put(log, b"two\n")
    log.close()
    times = [line.partition(" ")[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert times == ["1970-01-01T00:00:02.000000Z"] * 2


def test_a_full_disk_costs_whole_lines_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogFile(str(tmp_path / "log"))
    put(log, b"before\n")
    parts: list[int] = []

    def write(fd: int, data: Any) -> int:
        if parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        parts.append(REAL_WRITE(fd, bytes(data)[:9]))
        return parts[0]

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        put(log, b"lost\n")
    put(log, b"after\n")
    log.close()
    assert texts(tmp_path / "log") == ["before", "after"]
