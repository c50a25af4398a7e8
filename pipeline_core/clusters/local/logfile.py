"""The log file of a container: the lines that it writes to its pipe, each with the time at which it was read."""

from __future__ import annotations

import contextlib
import os
import time

from pipeline_core.common.files import write_all

LINE_LIMIT = 16 * 1024
TAIL = 2 * 1024
_CHUNK = 64 * 1024
_PIPE_LIMIT = 1024 * 1024


class LogFile:
    """Appends `2026-01-31T12:00:00.000001Z text` lines. Longer lines than LINE_LIMIT bytes are cut into several."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._partial = b""
        self._tail = b""
        self._last = 0

    @property
    def tail(self) -> str:
        """The last TAIL bytes of output."""
        return self._tail.decode("utf-8", "replace").rstrip("\n")

    def take(self, pipe: int) -> bool:
        """Read from a non-blocking pipe what is there, at most 64 KiB. False when all writers have closed it."""
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return True
        self._add(data)
        return bool(data)

    def drain(self, pipe: int) -> None:
        """Read at most what a pipe can hold: a process that goes on writing is not waited for."""
        for _ in range(_PIPE_LIMIT // _CHUNK):
            self.take(pipe)

    def flush(self) -> None:
        """Write a last line that has no newline."""
        if self._partial:
            self._append([self._partial])
            self._partial = b""

    def close(self) -> None:
        self.flush()
        os.close(self._fd)

    def _add(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL:]
        *lines, self._partial = (self._partial + data).split(b"\n")
        while len(self._partial) > LINE_LIMIT:
            lines.append(self._partial[:LINE_LIMIT])
            self._partial = self._partial[LINE_LIMIT:]
        self._append(lines)

    def _append(self, lines: list[bytes]) -> None:
        if not lines:
            return
        # Times in one file never go back, even when the machine's clock does: readers merge by them.
        self._last = now = max(self._last, time.time_ns() // 1000)
        prefix = f"{rfc3339(now)} ".encode()
        pieces = []
        for line in lines:
            for start in range(0, max(len(line), 1), LINE_LIMIT):
                text = line[start : start + LINE_LIMIT].decode("utf-8", "replace")
                pieces += [prefix, text.encode(), b"\n"]
        size = os.fstat(self._fd).st_size
        try:
            write_all(self._fd, b"".join(pieces))
        except OSError:
            # A full disk costs log lines, not the replica. Half a line would spoil the one that follows it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, size)


def rfc3339(microseconds: int) -> str:
    """A time since the epoch as text in UTC."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:06d}Z"
