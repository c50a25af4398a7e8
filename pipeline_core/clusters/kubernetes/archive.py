"""Logs of containers whose pods are gone, as files at any place that fsspec reaches.

One file for each run of a container, `{job}/{pod}/{place}-{container}.{run}.log`, each line with its time in front. `place`
is the container's among those of the pod; `run` grows with each restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fsspec.core import url_to_fs

from pipeline_core.clusters.base import ClusterAway


@dataclass(frozen=True, slots=True)
class RunLog:
    """Names the log of one run of a container."""

    pod: str
    place: int
    container: str
    run: int


class Archive:
    """The archive below `url`. Every method raises ClusterAway when the place cannot be used at present."""

    def __init__(self, url: str) -> None:
        self._files, self._root = url_to_fs(url)

    def store(self, job_id: str, log: RunLog, lines: Iterable[bytes]) -> None:
        """Store a whole log; it gets its name once it is complete."""
        path = self._path(job_id, log)
        with _at_hand():
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(f"{path}.part", "wb") as file:
                for line in lines:
                    file.write(line + b"\n")
            self._files.mv(f"{path}.part", path)

    def has(self, job_id: str, log: RunLog) -> bool:
        with _at_hand():
            return bool(self._files.exists(self._path(job_id, log)))

    def logs(self, job_id: str) -> dict[str, list[tuple[str, str]]]:
        """By pod, the names of its containers in their order, each with the file of a run to `read`, by run."""
        found: dict[str, list[tuple[str, str]]] = {}
        with _at_hand():
            if not self._files.exists(f"{self._root}/{job_id}"):
                return {}
            # What was listed before, perhaps by nobody but us, may have changed by another process.
            self._files.invalidate_cache()
            for path in sorted(self._files.find(f"{self._root}/{job_id}")):
                *_, pod, name = path.split("/")
                if name.endswith(".log"):
                    found.setdefault(pod, []).append((name[3:].rsplit(".", 2)[0], path))
        return found

    def read(self, path: str) -> Iterator[bytes]:
        """The lines of a file, without their newlines."""
        with _at_hand(), self._files.open(path, "rb") as file:
            for line in file:
                yield line.removesuffix(b"\n")

    def remove(self, job_id: str) -> None:
        """Remove all logs of a job."""
        with _at_hand():
            if self._files.exists(f"{self._root}/{job_id}"):
                self._files.rm(f"{self._root}/{job_id}", recursive=True)

    def _path(self, job_id: str, log: RunLog) -> str:
        return f"{self._root}/{job_id}/{log.pod}/{log.place:02}-{log.container}.{log.run:04}.log"


@contextmanager
def _at_hand() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ClusterAway(f"the archive of logs cannot be used at present: {error}") from error
