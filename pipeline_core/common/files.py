"""Write files atomically and durably, and open those that others may have replaced. Standard library only: the supervisors of
the local cluster import it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO


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


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading. Raises OSError; FileNotFoundError also for a link, a FIFO, a directory or a device, which
    is not opened: that could block, or lead elsewhere."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise FileNotFoundError(error.errno, "no regular file", path) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "no regular file", path)
    return open(fd, "rb")


def sync_directory(path: str) -> None:
    """Flush a directory's entries to disk (fsync). Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
