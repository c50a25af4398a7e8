"""Reading the logs of a job: one file per container of each try, merged by time."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from operator import attrgetter
from pathlib import Path

from pipeline_core.clusters.base import LogLine, LogQuery

FOLLOW_SECONDS = 0.1
_BLOCK = 64 * 1024


class LogReader:
    """One log file, read in whole lines, from where the last reading stopped. It need not exist yet."""

    def __init__(self, path: Path, source: str) -> None:
        self._path = path
        self._source = source
        self._offset = 0

    def rest(self) -> Iterator[LogLine]:
        """What came since. No file stays open between blocks: a job may have more logs than a process may open."""
        while block := self._block():
            whole = block.rfind(b"\n") + 1
            if not whole:
                return
            self._offset += whole
            yield from self._parse(block[:whole])

    def skip_to_last(self, count: int) -> None:
        """Leave out all but the last `count` lines that are there now."""
        try:
            with self._path.open("rb") as file:
                position = file.seek(0, 2)
                data = b""
                while position > 0 and data.count(b"\n") <= count:
                    step = min(_BLOCK, position)
                    position = file.seek(position - step)
                    data = file.read(step) + data
        except FileNotFoundError:
            return
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        kept = sum(len(line) for line in lines[max(len(lines) - count, 0) :])
        self._offset = position + data.rfind(b"\n") + 1 - kept

    def _block(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                return file.read(_BLOCK)
        except FileNotFoundError:
            return b""

    def _parse(self, data: bytes) -> Iterator[LogLine]:
        for line in data.decode("utf-8", "replace").split("\n")[:-1]:
            stamp, _, text = line.partition(" ")
            yield LogLine(datetime.fromisoformat(stamp), self._source, text)


def read(
    query: LogQuery, find: Callable[[], Iterable[tuple[Path, str]]], over: Callable[[], bool]
) -> Iterator[LogLine]:
    """The lines of the files that `find` names, merged by time.

    With `query.follow`, looks for more, also for more files, until `over` says that what is followed has ended.
    """
    readers: dict[Path, LogReader] = {}
    first = True
    while True:
        last = not query.follow or over()
        for path, source in find():
            if path not in readers:
                readers[path] = LogReader(path, source)
                if first and query.tail is not None:
                    readers[path].skip_to_last(query.tail)
        lines: Iterable[LogLine] = heapq.merge(*(reader.rest() for reader in readers.values()), key=attrgetter("time"))
        if first and query.tail is not None:
            lines = deque(lines, maxlen=query.tail)
        yield from (line for line in lines if query.since is None or line.time >= query.since)
        if last:
            return
        first = False
        time.sleep(FOLLOW_SECONDS)
