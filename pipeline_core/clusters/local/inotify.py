"""Names of the files of one directory as they are made or touched: Linux's inotify."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path

IN_ATTRIB = 0x4
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_Q_OVERFLOW = 0x4000
_HEADER = struct.Struct("iIII")


class Overflow(Exception):
    """More happened than the kernel remembers."""


class DirectoryWatch:
    """Watches from the moment it is made; close it, or use it as a context."""

    def __init__(self, directory: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        if libc.inotify_add_watch(self._fd, os.fsencode(directory), IN_ATTRIB | IN_CREATE | IN_MOVED_TO) < 0:
            code = ctypes.get_errno()
            os.close(self._fd)
            raise OSError(code, os.strerror(code), str(directory))

    def __enter__(self) -> DirectoryWatch:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._fd)

    def names(self, timeout: float) -> list[str]:
        """What was made or touched, each name once; empty when nothing was for `timeout` seconds. Raises Overflow."""
        if not select.select([self._fd], [], [], timeout)[0]:
            return []
        return list(dict.fromkeys(_names(os.read(self._fd, 64 * 1024))))


def _names(data: bytes) -> Iterator[str]:
    position = 0
    while position < len(data):
        _, mask, _, length = _HEADER.unpack_from(data, position)
        position += _HEADER.size
        if mask & IN_Q_OVERFLOW:
            raise Overflow
        name = os.fsdecode(data[position : position + length].rstrip(b"\0"))
        position += length
        if name:
            yield name
