"""Write files atomically and durably. Standard library only: the supervisors of the local cluster import it."""

from __future__ import annotations

import contextlib
import os


def write_all(fd: int, data: bytes) -> None:
    """Write all of the data to a blocking descriptor. Raises OSError.

    `os.write` may write less than it is given, without an error: on a disk that is nearly full, and to a pipe when a
    signal arrives.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def write_durably(directory: str, name: str, data: bytes) -> None:
    """Write or replace a file atomically and durably: it has all of the data, or its old content. Raises OSError."""
    draft = os.path.join(directory, f".{name}.{os.urandom(6).hex()}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(draft, os.path.join(directory, name))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    sync_directory(directory)


def sync_directory(path: str) -> None:
    """Flush a directory's entries to disk (fsync). Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
