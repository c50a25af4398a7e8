"""Files are written atomically, also when the system writes only a part at a time."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.common.files import open_regular, write_all, write_durably

DATA = bytes(range(256)) * 40
PACKAGES = ("pipeline_core", "workers", "api", "pipeline_cli", "pipeline_up")
REAL_WRITE = os.write


@pytest.fixture
def short_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that is nearly full, or when a signal arrives: a part is written, without an error."""
    monkeypatch.setattr(os, "write", lambda fd, data: REAL_WRITE(fd, bytes(data)[:1000]))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part is written, then the disk is full."""
    written: list[int] = []

    def write(fd: int, data: Any) -> int:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(REAL_WRITE(fd, bytes(data)[:1000]))
        return written[0]

    monkeypatch.setattr(os, "write", write)


@pytest.mark.usefixtures("short_writes")
def test_all_is_written_when_the_system_writes_a_part_at_a_time(tmp_path: Path) -> None:
    write_durably(str(tmp_path), "plan.json", DATA)
    assert (tmp_path / "plan.json").read_bytes() == DATA
    with (tmp_path / "other").open("wb", buffering=0) as file:
        write_all(file.fileno(), DATA)
    assert (tmp_path / "other").read_bytes() == DATA


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "limit").write_bytes(b"3")
    with pytest.raises(OSError, match="No space left"):
        write_durably(str(tmp_path), "limit", DATA)
    assert (tmp_path / "limit").read_bytes() == b"3"
    assert os.listdir(tmp_path) == ["limit"]


def test_nothing_else_calls_os_write() -> None:
    root = Path(__file__).parents[3]
    found = [
        str(path.relative_to(root))
        for package in PACKAGES
        for path in (root / package).rglob("*.py")
        if "os.write(" in path.read_text()
    ]
    assert found == ["pipeline_core/common/files.py"], "use write_all: os.write may write less than it is given"


def test_only_a_regular_file_is_opened(tmp_path: Path) -> None:
    regular, link, fifo = tmp_path / "regular", tmp_path / "link", tmp_path / "fifo"
    regular.write_bytes(DATA)
    link.symlink_to(regular)
    os.mkfifo(fifo)
    with open_regular(regular) as file:
        assert file.read() == DATA
    for other in (link, fifo, tmp_path, Path("/dev/null"), tmp_path / "nothing"):
        with pytest.raises(FileNotFoundError):
            open_regular(other)
