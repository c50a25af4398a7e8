"""The log of a job, for all drivers: which replica attempts a query asks for, and merging their files by time."""

from __future__ import annotations

import heapq
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import IO, NamedTuple

from pipeline_core.clusters.base import LogLine, LogQuery, NoSuchAttempt, ReplicaKey
from pipeline_core.clusters.records import OPEN
from pipeline_core.common.files import open_regular

FOLLOW_SECONDS = 0.1
IDLE_SECONDS = 1.0
DISORDER = timedelta(seconds=2)
"""How far records of one file may be out of order: the output streams of a container are read one after the other."""
_BLOCK = 64 * 1024
_LONGEST = 1024 * 1024
"""More than any record has."""
_LONGEST_TIME = 40
_OPEN = OPEN.decode()
_RECORD = re.compile(rb"[^\n]*?Z(?P<kind>[ +])[^\n]*\n")

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


class LogFile(NamedTuple):
    """A log file, which need not exist yet, the source that its lines are prefixed with, and their origin."""

    path: Path
    source: str
    origin: str = ""


class LogReader:
    """Reads a log file of records, each time from where it stopped. The file need not exist yet.

    On the local cluster a job's processes can replace it by anything: what is no regular file is not there, what is no record
    is left out.
    """

    def __init__(self, path: Path, source: str, origin: str = "") -> None:
        self._path = path
        self._source = source
        self._origin = origin
        self._offset = 0

    def rest(self) -> Iterator[LogLine]:
        """What came since. No file stays open between blocks: a job may have more logs than a process may open."""
        began: list[str] = []
        while block := self._block():
            self._offset += len(block)
            for record in block.decode("utf-8", "replace").split("\n")[:-1]:
                if (parts := _parts(record)) is None:
                    continue
                moment, kind, text = parts
                began.append(text)
                if kind != _OPEN:
                    yield LogLine(moment, self._source, "".join(began), origin=self._origin)
                    began = []
        if began:
            yield LogLine(moment, self._source, "".join(began), open=True, origin=self._origin)

    def skip_to_last(self, count: int) -> None:
        """Leave out all but the last `count` lines that are there now."""
        try:
            with open_regular(self._path) as file:
                position = file.seek(0, 2)
                data = b""
                starts: list[int] = []
                while position > 0 and len(starts) <= count and len(data) <= _LONGEST * (count + 1):
                    step = min(max(_BLOCK, len(data)), position)
                    position = file.seek(position - step)
                    data = file.read(step) + data
                    starts = _line_starts(data, position == 0)
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self._offset = position + (starts[-count] if 0 < count <= len(starts) else end if count == 0 else 0)

    def skip_to_time(self, moment: datetime) -> None:
        """Leave out what was written before a time, as `place_of` finds it."""
        try:
            with open_regular(self._path) as file:
                self._offset = place_of(moment, file)
        except (FileNotFoundError, ValueError):
            return

    def _block(self) -> bytes:
        """Whole lines; nothing when no line has ended since, and after what is longer than any record."""
        try:
            with open_regular(self._path) as file:
                file.seek(self._offset)
                data = b""
                while b"\n" not in data:
                    if not (more := file.read(_BLOCK)) or len(data) > _LONGEST:
                        return b""
                    data += more
        except FileNotFoundError:
            return b""
        return data[: data.rfind(b"\n") + 1]


def _parts(record: str) -> tuple[datetime, str, str] | None:
    """Time, separator and text of a record; None for what is none."""
    place = record.find("Z", 0, _LONGEST_TIME) + 1
    try:
        return datetime.fromisoformat(record[:place]), record[place : place + 1], record[place + 1 :]
    except ValueError:
        return None


def time_of(record: bytes) -> datetime:
    """The time at the beginning of a record."""
    return datetime.fromisoformat(record[: record.index(b"Z") + 1].decode())


def place_of(moment: datetime, file: IO[bytes]) -> int:
    """Where in a file of records, which are sorted by time, to begin for what was written since `moment`.

    It is found by halving, and is a little too early: before it is nothing but what was written before `moment`.
    """
    wanted = moment - DISORDER
    first, last = 0, file.seek(0, 2)
    while last - first > _BLOCK:
        middle = (first + last) // 2
        file.seek(middle)
        file.readline()
        place = file.tell()
        record = file.readline()
        if place < last and record.endswith(b"\n") and time_of(record) < wanted:
            first = place
        else:
            last = middle
    return first


def _line_starts(data: bytes, whole: bool) -> list[int]:
    """Where lines begin in a part of a file that ends with a whole record; `whole`: it is the beginning of the file."""
    starts = []
    begins = whole
    for record in _RECORD.finditer(data, 0 if whole else data.find(b"\n") + 1):
        if begins:
            starts.append(record.start())
        begins = record["kind"] != OPEN
    return starts


def as_text(lines: Iterable[LogLine | None], prefix: Callable[[LogLine], str]) -> Iterator[str]:
    """What is to be printed: each line after its prefix. An open line has no newline, until another source or its end comes.

    None, where there is no line yet, becomes an empty text.
    """
    before: LogLine | None = None
    for line in lines:
        if line is None:
            yield ""
            continue
        goes_on = before is not None and before.open
        same = before is not None and before.source == line.source
        front = "" if goes_on and same else ("\n" if goes_on else "") + prefix(line)
        yield front + line.text + ("" if line.open else "\n")
        before = line
    if before is not None and before.open:
        yield "\n"


def read(query: LogQuery, find: Callable[[], Iterable[LogFile]], over: Callable[[], bool]) -> Iterator[LogLine | None]:
    """The lines of the files that `find` names, merged by time.

    With `query.follow`, reads on, also new files, until `over` says that all that is followed has ended and the query that
    no more will start; yields None at intervals when there is no line.
    """
    readers: dict[Path, LogReader] = {}
    first = True
    last_yield = float("-inf")
    while True:
        last = not query.follow or (over() and query.finished())
        for path, source, origin in find():
            if path not in readers:
                readers[path] = LogReader(path, source, origin)
                if first and query.tail is not None:
                    readers[path].skip_to_last(query.tail)
                elif start := query.starts.get(origin, query.since):
                    readers[path].skip_to_time(start)
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
