"""The archive of logs: files on any file system of fsspec, which are kept after the pods are deleted.

Each run of a container has a file `{job}/{pod}/{place}-{container}.{run}.log` of lines that begin with their time. `place` is
the container's position in its pod; `run` counts its restarts. While the run lasts, the archive has pieces of the log instead,
`{place}-{container}.{run}.{first}-{last}.piece`, named by the numbers of their first and last line, since nothing can be
appended to an object in a bucket. Pieces that two processes wrote at once overlap; `lines` yields each line once.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile, zip_longest
from typing import Any

from fsspec.core import url_to_fs
from fsspec.spec import AbstractBufferedFile

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.logs import DISORDER, place_of, time_of
from pipeline_core.clusters.records import LIMIT_SENTENCE
from pipeline_core.errors import ConfigurationError, PipelineError

SMALL_BYTES = 8 * 1024 * 1024
MOST_SMALL = 32
"""When there are so many small pieces of a run, they are joined into one."""

_SENTENCE_BEGIN = LIMIT_SENTENCE.partition("{")[0].encode()
_NAME = re.compile(r"(?P<place>\d\d)-(?P<container>.+)\.(?P<run>\d{4,})\.(?:log|(?P<span>\d+-\d+)\.piece)")


class ArchiveUnavailable(ClusterUnavailable):
    """The archive of logs cannot be read or written at present."""


@dataclass(frozen=True, order=True, slots=True)
class RunLog:
    """The key of the log of one run of a container."""

    pod: str
    place: int
    container: str
    run: int

    @property
    def name(self) -> str:
        return f"{self.pod}/{self.place:02}-{self.container}.{self.run:04}"


class Archive:
    """The archive below `url`. Every method raises ArchiveUnavailable when that place cannot be used at present.

    Of the log of one run it keeps `limit` bytes (0: all), and then a last line that says so.
    """

    def __init__(self, url: str, limit: int = 0) -> None:
        """Raises ConfigurationError for a URL of a kind that is not known, or whose package is not installed."""
        try:
            self._files, self._root = url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ConfigurationError(
                f"PIPELINE_ARCHIVE_URL cannot be used: {error}. s3://… takes pip install 'pipeline-service[s3]'"
            ) from error
        self._limit = limit

    def store(self, job_id: str, log: RunLog, lines: Iterable[bytes]) -> None:
        """Store the whole log of a run that has ended, and remove its pieces."""
        with _available():
            pieces = self._pieces(job_id, log)
            self._write(f"{self._path(job_id, log)}.log", limited(lines, self._limit))
            self._remove(pieces)

    def add(self, job_id: str, log: RunLog, first: int, lines: Sequence[bytes]) -> None:
        """Store a piece of the log of a run that has not ended; `first` is the number of its first line, from 0."""
        with _available():
            known = self._pieces(job_id, log)
            if self._limit:
                if known and self._is_cut(known[-1]):
                    return
                lines = [*limited(lines, self._limit, sum(map(self._files.size, known)))]
            self._write(self._piece(job_id, log, first, len(lines)), lines)
            small = list(takewhile(self._is_small, reversed(self._pieces(job_id, log))))[::-1]
            if len(small) >= MOST_SMALL:
                self._join(job_id, log, small)

    def has(self, job_id: str, log: RunLog) -> bool:
        """Whether the archive has the whole log of a run."""
        with _available():
            self._files.invalidate_cache()
            return bool(self._files.exists(f"{self._path(job_id, log)}.log"))

    def runs(self, job_id: str) -> Mapping[RunLog, Sequence[str]]:
        """All runs of a job of which the archive has a log, by pod and position of the container, each with its files."""
        with _available():
            found: dict[RunLog, list[str]] = {}
            for path in self._paths(f"{self._root}/{job_id}"):
                *_, pod, name = path.split("/")
                if parts := _NAME.fullmatch(name):
                    log = RunLog(pod, int(parts["place"]), parts["container"], int(parts["run"]))
                    found.setdefault(log, []).append(path)
        return {log: [path for path in paths if path.endswith(".log")] or paths for log, paths in sorted(found.items())}

    def lines(self, job_id: str, log: RunLog, since: datetime | None = None) -> Iterator[bytes]:
        """The lines of a run, without their newlines; with `since`, most of what was written before that time is left out."""
        count = 0
        while True:
            try:
                for line in self._from(count, self.runs(job_id).get(log, ()), since):
                    count += 1
                    yield line
            except _Replaced:
                continue
            return

    def size(self, job_id: str) -> int:
        """How many bytes all logs of a job take."""
        with _available():
            self._files.invalidate_cache()
            found = self._files.find(f"{self._root}/{job_id}", detail=True)
            return sum(file["size"] for file in found.values())

    def remove(self, job_id: str) -> None:
        """Remove all logs of a job."""
        with _available():
            if self._files.exists(f"{self._root}/{job_id}"):
                self._files.rm(f"{self._root}/{job_id}", recursive=True)

    def _join(self, job_id: str, log: RunLog, pieces: Sequence[str]) -> None:
        first = _first(pieces[0])
        lines = list(self._from(first, pieces))
        joined = self._piece(job_id, log, first, len(lines))
        self._write(joined, lines)
        self._remove(path for path in pieces if path != joined)

    def _from(self, number: int, paths: Sequence[str], since: datetime | None = None) -> Iterator[bytes]:
        """The lines of these files, from this one on, or those since a time. Raises _Replaced."""
        for path, following in zip_longest(paths, paths[1:]):
            if since is not None and following is not None and self._begins_before(following, since):
                continue
            if since is not None and number == 0 and path.endswith(".log"):
                yield from self._read(path, since)
                return
            for place, line in enumerate(self._read(path), _first(path)):
                if place >= number:
                    number = place + 1
                    yield line

    def _begins_before(self, path: str, moment: datetime) -> bool:
        first = next(self._read(path), None)
        return first is not None and time_of(first) < moment - DISORDER

    def _read(self, path: str, since: datetime | None = None) -> Iterator[bytes]:
        """Raises _Replaced when another process has replaced the file."""
        with _available():
            try:
                file = self._files.open(path, "rb")
            except FileNotFoundError as error:
                raise _Replaced from error
            with file:
                if since is not None:
                    file.seek(place_of(since, file))
                for line in file:
                    yield line.removesuffix(b"\n")

    def _is_cut(self, path: str) -> bool:
        """Whether the log of which this is the last piece was cut there."""
        end = self._files.tail(path, len(LIMIT_SENTENCE) + 100).splitlines()
        return bool(end) and _is_sentence(end[-1])

    def _write(self, path: str, lines: Iterable[bytes]) -> None:
        """Write a file, which gets its name once it is complete."""
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        unfinished = f"{path}.{uuid.uuid4().hex}.part"
        file = self._files.open(unfinished, "wb")
        try:
            for line in lines:
                file.write(line + b"\n")
            file.close()
            self._files.mv(unfinished, path)
        except BaseException:
            with suppress(Exception):
                _discard(file)
            with suppress(Exception):
                self._remove([unfinished])
            raise

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                self._files.rm(path)

    def _pieces(self, job_id: str, log: RunLog) -> list[str]:
        path = self._path(job_id, log)
        return [
            one for one in self._paths(path.rpartition("/")[0]) if one.startswith(f"{path}.") and one.endswith(".piece")
        ]

    def _paths(self, directory: str) -> list[str]:
        # Other processes change the directory, which fsspec does not know.
        self._files.invalidate_cache()
        return sorted(self._files.find(directory))

    def _is_small(self, path: str) -> bool:
        return bool(self._files.size(path) < SMALL_BYTES)

    def _piece(self, job_id: str, log: RunLog, first: int, count: int) -> str:
        return f"{self._path(job_id, log)}.{first:012}-{first + count - 1:012}.piece"

    def _path(self, job_id: str, log: RunLog) -> str:
        return f"{self._root}/{job_id}/{log.name}"


def limited(lines: Iterable[bytes], limit: int, size: int = 0) -> Iterator[bytes]:
    """The lines as far as they have at most `limit` bytes (0: no limit), then one that says so; `size` bytes came before."""
    for line in lines:
        size += len(line) + 1
        if 0 < limit < size and not _is_sentence(line):
            yield line.partition(b" ")[0] + b" " + LIMIT_SENTENCE.format(limit=limit).encode()
            return
        yield line
        if _is_sentence(line):
            return


def _is_sentence(line: bytes) -> bool:
    return line.partition(b" ")[2].startswith(_SENTENCE_BEGIN)


class _Replaced(Exception):
    """A file has been removed, and its lines are in another file."""


def _first(path: str) -> int:
    """The number of a file's first line."""
    return int(path.rsplit(".", 2)[1].partition("-")[0]) if path.endswith(".piece") else 0


def _discard(file: Any) -> None:
    """Close a file without uploading what it holds."""
    if isinstance(file, AbstractBufferedFile) and not file.closed:
        # What is not closed is uploaded when it is garbage-collected.
        file.closed = True
        file.discard()
    else:
        file.close()


@contextmanager
def _available() -> Iterator[None]:
    try:
        yield
    except (PipelineError, _Replaced):
        raise
    except Exception as error:
        # Each file system has exceptions of its own: that S3 cannot be reached is no OSError.
        raise ArchiveUnavailable(f"the archive of logs cannot be used at present: {error}") from error
