"""The log of a job, for all drivers: which replica attempts a query asks for, and merging their files by time."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from operator import attrgetter
from pathlib import Path

from pipeline_core.clusters.base import LogLine, LogQuery, NoSuchAttempt, ReplicaKey

FOLLOW_SECONDS = 0.1
IDLE_SECONDS = 1.0
_BLOCK = 64 * 1024

ReplicaAttempt = tuple[int, ReplicaKey]
"""The number of a job attempt, and one of its replica attempts."""


def chosen(query: LogQuery, attempts: Iterable[ReplicaAttempt]) -> frozenset[ReplicaAttempt]:
    """The replica attempts whose lines the query asks for.

    The attempts of each replica are counted from 0 over retries of the replica and of the whole TaskSet. A query that names
    none asks for the last one of each replica. Raises NoSuchAttempt.
    """
    replicas: dict[tuple[str, int], list[ReplicaAttempt]] = defaultdict(list)
    for one in sorted(set(attempts)):
        key = one[1]
        if query.role in (None, key.role) and query.index in (None, key.index):
            replicas[key.role, key.index].append(one)
    if query.attempt is None:
        return frozenset(of_one[-1] for of_one in replicas.values())
    found = frozenset(of_one[query.attempt] for of_one in replicas.values() if query.attempt < len(of_one))
    # The first attempt may not have started yet.
    if query.attempt > 0 and not found:
        last = max(map(len, replicas.values()), default=0) - 1
        raise NoSuchAttempt(
            f"There is no attempt {query.attempt}: the last is {last}."
            if last >= 0
            else f"There is no attempt {query.attempt}: nothing has run yet."
        )
    return found


class LogReader:
    """Reads a log file in whole lines, each time from where it stopped. The file need not exist yet."""

    def __init__(self, path: Path, source: str) -> None:
        self._path = path
        self._source = source
        self._offset = 0

    def rest(self) -> Iterator[LogLine]:
        """What came since. No file stays open between blocks: a job may have more logs than a process may open."""
        while block := self._block():
            self._offset += len(block)
            yield from self._parse(block)

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
        """Whole lines; nothing when no line has ended since."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = b""
                while b"\n" not in data:
                    if not (more := file.read(_BLOCK)):
                        return b""
                    data += more
        except FileNotFoundError:
            return b""
        return data[: data.rfind(b"\n") + 1]

    def _parse(self, data: bytes) -> Iterator[LogLine]:
        for line in data.decode("utf-8", "replace").split("\n")[:-1]:
            stamp, _, text = line.partition(" ")
            yield LogLine(datetime.fromisoformat(stamp), self._source, text)


def read(
    query: LogQuery, find: Callable[[], Iterable[tuple[Path, str]]], over: Callable[[], bool]
) -> Iterator[LogLine | None]:
    """The lines of the files that `find` names, each with its source, merged by time.

    With `query.follow`, reads on, also new files, until `over` says that all that is followed has ended and the query that
    no more will start; yields None at intervals when there is no line.
    """
    readers: dict[Path, LogReader] = {}
    first = True
    last_yield = float("-inf")
    while True:
        last = not query.follow or (over() and query.finished())
        for path, source in find():
            if path not in readers:
                readers[path] = LogReader(path, source)
                if first and query.tail is not None:
                    readers[path].skip_to_last(query.tail)
        lines: Iterable[LogLine] = heapq.merge(*(reader.rest() for reader in readers.values()), key=attrgetter("time"))
        if first and query.tail is not None:
            lines = deque(lines, maxlen=query.tail)
        for line in lines:
            if query.since is None or line.time >= query.since:
                last_yield = time.monotonic()
                yield line
        if last:
            return
        if time.monotonic() - last_yield >= IDLE_SECONDS:
            last_yield = time.monotonic()
            yield None
        first = False
        time.sleep(FOLLOW_SECONDS)
