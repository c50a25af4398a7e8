"""The calls of Linux that Python's standard library lacks (3.11 has no `os.unshare`): processes, mounts, inotify."""

from __future__ import annotations

import ctypes
import os
import select
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_UNBINDABLE, MS_PRIVATE = 1 << 5, 1 << 12, 1 << 14, 1 << 17, 1 << 18
MNT_DETACH = 2
LONGEST_POLL = 2**31 - 1
"""Milliseconds; poll takes no longer time-out."""

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(signal: int) -> None:
    """Have `signal` sent to this process when its parent dies. Undone by a change of credentials."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal), 0, 0, 0), "prctl")


def become_subreaper() -> None:
    """Make this process the parent of all descendants whose own parents die, whatever session they are in."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    _check(result, f"mount {target}")


def pivot_root(new: str, old: str) -> None:
    _check(_libc.pivot_root(os.fsencode(new), os.fsencode(old)), "pivot_root")


def unmount(target: str, flags: int) -> None:
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)), f"umount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


IN_ATTRIB = 0x4
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_Q_OVERFLOW = 0x4000
_HEADER = struct.Struct("iIII")


class Overflow(Exception):
    """More files were changed than the kernel's queue holds."""


class DirectoryWatch:
    """Names of the files of one directory as they are made or touched. Watches from its creation on; use it in `with`."""

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
        """Wait at most `timeout` seconds for changes; the names of the files, each once. Raises Overflow."""
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
