"""Lines on their way from a container's pipe to its log file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.clusters.local import logfile
from pipeline_core.clusters.local.logfile import LogFile
from pipeline_core.clusters.records import LIMIT_SENTENCE

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
    """What is in the file, with a `+` before the text of an open line."""
    return [line.partition("Z")[2].removeprefix(" ") for line in path.read_text().splitlines()]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic time, as a list of one."""
    at = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: at[0])
    return at


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


def test_an_open_line_is_written_when_it_has_waited_and_its_rest_later(tmp_path: Path, clock: list[float]) -> None:
    log = LogFile(str(tmp_path / "log"))
    put(log, b"one\nname? ")
    assert log.due == 101.0
    clock[0] = 100.9
    log.write_open()
    assert texts(tmp_path / "log") == ["one"]
    clock[0] = 101.0
    log.write_open()
    assert texts(tmp_path / "log") == ["one", "+name? "]
    assert log.due is None
    put(log, b"an")
    assert log.due == 102.0
    put(log, b"n")
    assert log.due == 102.0
    clock[0] = 102.0
    log.write_open()
    put(log, b"\ntwo\n")
    assert log.due is None
    assert texts(tmp_path / "log") == ["one", "+name? ", "+ann", "", "two"]


def test_an_open_line_is_ended_with_its_container(tmp_path: Path, clock: list[float]) -> None:
    log = LogFile(str(tmp_path / "log"))
    put(log, b"50 %")
    clock[0] += 1
    log.write_open()
    log.flush()
    put(log, b"again\n")
    log.close()
    assert texts(tmp_path / "log") == ["+50 %", "", "again"]


def test_an_open_line_is_not_written_up_to_the_middle_of_a_character(tmp_path: Path, clock: list[float]) -> None:
    log = LogFile(str(tmp_path / "log"))
    for byte in "a€𝄞".encode():
        put(log, bytes([byte]))
        clock[0] += 1
        log.write_open()
    log.close()
    assert texts(tmp_path / "log") == ["+a", "+€", "+𝄞", ""]


def test_an_open_line_is_cut_where_a_whole_one_is(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "LINE_LIMIT", 4)
    log = LogFile(str(tmp_path / "log"))
    put(log, b"abc")
    clock[0] += 1
    log.write_open()
    put(log, b"defgh\n")
    log.close()
    assert texts(tmp_path / "log") == ["+abc", "d", "efgh"]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"a", 0),
        ("é".encode(), 0),
        ("é".encode()[:1], 1),
        ("𝄞".encode()[:3], 3),
        (b"\xff", 1),
        (b"\x80\x80\x80", 0),
    ],
)
def test_the_bytes_of_an_unfinished_character_are_counted(data: bytes, count: int) -> None:
    assert logfile.unfinished_character(b"xxx" + data) == count


def test_a_log_at_its_limit_says_so_and_keeps_no_more(tmp_path: Path, clock: list[float]) -> None:
    log = LogFile(str(tmp_path / "log"), 120)
    put(log, b"x" * 40 + b"\nopen")
    clock[0] += 1
    log.write_open()
    put(log, b"y" * 40 + b"\n")
    put(log, b"z\n")
    log.close()
    assert texts(tmp_path / "log") == ["x" * 40, "+open", "", LIMIT_SENTENCE.format(limit=120)]
    assert log.tail.endswith("z")
