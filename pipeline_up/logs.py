"""The log files of the supervised processes.

A process writes to its file itself, not through the supervisor, so that it can go on when the supervisor is killed.
Files are therefore rotated by copying and truncating them, as logrotate's `copytruncate` does.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

LARGEST_BYTES = 10 * 1024 * 1024
KEPT = 3
TAIL_BYTES = 2000


def rotate(path: Path, *, largest: int = LARGEST_BYTES, kept: int = KEPT) -> None:
    """Rotate the file when it is larger than `largest` bytes: its content goes to `NAME.1`, and so on to `NAME.{kept}`."""
    if not path.exists() or path.stat().st_size < largest:
        return
    for number in range(kept - 1, 0, -1):
        if older(path, number).exists():
            older(path, number).replace(older(path, number + 1))
    shutil.copyfile(path, older(path, 1))
    os.truncate(path, 0)


def older(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def tail(path: Path) -> str:
    """The last lines of the file, without an incomplete first line."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return text if size <= TAIL_BYTES else text.partition("\n")[2]
