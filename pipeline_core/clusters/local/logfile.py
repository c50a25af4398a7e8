"""The log file of a container: the lines that it writes to its pipe, each with the time at which it was read.

A line that its process leaves open, such as a prompt or a progress bar, is written after OPEN_SECONDS as far as it goes, and
its rest in further records.
"""

from __future__ import annotations

import contextlib
import os
import time

from pipeline_core.clusters.records import END, LIMIT_SENTENCE, OPEN
from pipeline_core.common.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LINE_LIMIT = 16 * 1024
TAIL = 2 * 1024
OPEN_SECONDS = 1.0
"""How long an open line is kept back."""
_CHUNK = 64 * 1024
_PIPE_LIMIT = 1024 * 1024


class LogFile:
    """Appends records. Longer lines than LINE_LIMIT bytes are cut into several.

    Once the file would exceed `limit` bytes (0: no limit), a last line in it says so, and nothing more is kept.
    """

    def __init__(self, path: str, limit: int = 0) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        self._limit = limit
        self._full = False
        self._partial = b""
        self._began: float | None = None
        self._open = 0
        self._unended = False
        self._tail = b""
        self._last = 0

    @property
    def due(self) -> float | None:
        """When, on the monotonic clock, an open line is to be written; None when there is none."""
        return None if self._began is None else self._began + OPEN_SECONDS

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

    def write_open(self) -> None:
        """Write an open line if it is due."""
        if self.due is not None and time.monotonic() >= self.due:
            text = self._partial[: len(self._partial) - unfinished_character(self._partial)]
            self._append([(OPEN, text)] if text else [])
            self._partial = self._partial[len(text) :]
            self._open += len(text)
            self._began = None

    def flush(self) -> None:
        """End a last line that has no newline."""
        if self._partial or self._open:
            self._append([(END, self._partial)])
            self._partial, self._open, self._began = b"", 0, None

    def close(self) -> None:
        self.flush()
        os.close(self._fd)

    def _add(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL:]
        *lines, rest = (self._partial + data).split(b"\n")
        records = []
        for line in lines:
            records += [*self._cut(line)]
            self._open = 0
        *full, (_, self._partial) = self._cut(rest)
        self._append([*records, *full])
        if not self._partial:
            self._began = None
        elif self._began is None or records or full:
            self._began = time.monotonic()

    def _cut(self, line: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The line in parts that fit, each as a line of its own; counts what is in the file of it already."""
        while len(line) > (room := LINE_LIMIT - self._open):
            yield END, line[:room]
            line, self._open = line[room:], 0
        yield END, line

    def _append(self, records: list[tuple[bytes, bytes]]) -> None:
        if not records or self._full:
            return
        # Times in one file never go back, even when the machine's clock does: readers merge by them.
        self._last = now = max(self._last, time.time_ns() // 1000)
        stamp = rfc3339(now).encode()
        pieces = [stamp + kind + text.decode("utf-8", "replace").encode() + b"\n" for kind, text in records]
        size = os.fstat(self._fd).st_size
        kept = fitting(pieces, self._limit - size) if self._limit else len(pieces)
        if kept:
            self._unended = records[kept - 1][0] == OPEN
        if kept < len(pieces):
            self._full = True
            end = [stamp + END + b"\n"] if self._unended else []
            sentence = LIMIT_SENTENCE.format(limit=self._limit).encode()
            pieces = [*pieces[:kept], *end, stamp + END + sentence + b"\n"]
        try:
            write_all(self._fd, b"".join(pieces))
        except OSError:
            # A full disk costs log lines, not the replica. Half a line would spoil the one that follows it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, size)


def fitting(pieces: list[bytes], room: int) -> int:
    """How many of the first pieces have at most `room` bytes together."""
    for count, piece in enumerate(pieces):
        room -= len(piece)
        if room < 0:
            return count
    return len(pieces)


def unfinished_character(data: bytes) -> int:
    """How many bytes at the end begin a character of UTF-8 that goes on; 0 when the last one is whole, or is none."""
    for count, byte in enumerate(reversed(data[-3:]), 1):
        if byte & 0xC0 == 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return count if count < length else 0
        if byte < 0x80:
            return 0
    return 0


def rfc3339(microseconds: int) -> str:
    """A time since the epoch as text in UTC."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:06d}Z"
