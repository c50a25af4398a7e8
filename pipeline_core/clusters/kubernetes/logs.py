"""The log of a job: containers that the cluster has from there, others from the archive, merged by time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from pipeline_core.clock import now
from pipeline_core.clusters.base import ClusterAway, LogLine, LogQuery, Observation, ReplicaKey
from pipeline_core.clusters.kubernetes.api import Api
from pipeline_core.clusters.kubernetes.archive import Archive, RunLog
from pipeline_core.clusters.kubernetes.attempt import Attempt
from pipeline_core.clusters.kubernetes.objects import key_of_name
from pipeline_core.clusters.kubernetes.podlogs import Resume, container_log
from pipeline_core.clusters.kubernetes.podview import Container, PodView
from pipeline_core.clusters.local import logs as merging

POLL_SECONDS = 1.0


def read(
    api: Api,
    archive: Archive,
    job_id: str,
    query: LogQuery,
    attempts: Callable[[], list[Attempt]],
    observe: Callable[[], Observation | None],
) -> Iterator[LogLine]:
    """The lines that are asked for; with `query.follow`, until all replicas that are asked for have ended."""
    with tempfile.TemporaryDirectory(prefix="pipeline-logs-") as directory:
        collector = _Collector(api, archive, job_id, query, attempts, observe, Path(directory))
        yield from merging.read(query, collector.find, collector.over)


def store(api: Api, archive: Archive, attempt: Attempt, pod: Mapping[str, Any]) -> None:
    """Put the logs of a pod's containers that are not running any more into the archive: all runs that the cluster still
    has and the archive has not. Raises ClusterAway."""
    view = PodView(pod, now())
    name = str(view.metadata["name"])
    for place, container in enumerate(view.logged):
        for run, previous in ((container.restarts - 1, True), (container.restarts, False)):
            over = previous or view.phase_ended or (container.began and not container.running)
            log = RunLog(name, place, container.name, run)
            stored = archive.has(attempt.job_id, log) if run >= 0 and over else True
            if stored and (previous or view.settled or not over):
                continue
            found = container_log(api, attempt.namespace, name, container.name, previous=previous)
            lines = found if container.began else iter(())
            first = next(lines, None)
            # An empty log is stored in the end, so that the archive knows of all containers.
            if first is not None or (view.phase_ended and not previous and not stored):
                archive.store(attempt.job_id, log, chain([first] if first else [], lines))


class _Source:
    """The log of one container, collected in a file of whole lines that only grows."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self._resume = Resume()
        self._restarts: int | None = None

    def pull(self, api: Api, namespace: str, pod: str, container: Container, query: LogQuery) -> None:
        """Fetch what came since. A log that cannot be had now is fetched another time."""
        began = now()
        first = self._restarts is None
        if first and query.since:
            self._resume.begin(query.since)
        restarted = container.restarts > (self._restarts or 0)
        tail = query.tail if first else None
        try:
            for previous in (True, False) if restarted else (False,):
                lines = container_log(
                    api, namespace, pod, container.name, previous=previous, since=self._resume.since, tail=tail
                )
                self.take(lines)
        except ClusterAway:
            return
        self._restarts = container.restarts
        if tail is not None:
            self._resume.begin(began)

    def take(self, lines: Iterable[bytes]) -> None:
        with self.path.open("ab") as file:
            for line in self._resume.new(lines):
                file.write(line + b"\n")


class _Collector:
    """Collects logs into files, from where they are merged as those of the local cluster are."""

    def __init__(
        self,
        api: Api,
        archive: Archive,
        job_id: str,
        query: LogQuery,
        attempts: Callable[[], list[Attempt]],
        observe: Callable[[], Observation | None],
        directory: Path,
    ) -> None:
        self._api = api
        self._archive = archive
        self._job_id = job_id
        self._query = query
        self._attempts = attempts
        self._observe = observe
        self._directory = directory
        self._sources: dict[tuple[str, str], _Source] = {}
        self._archived: set[str] = set()
        self._due = True
        self._looked = time.monotonic()

    def over(self) -> bool:
        """Whether everything that is followed has ended. Looks once in a while only, and then makes `find` do so too."""
        if time.monotonic() - self._looked < POLL_SECONDS and self._sources:
            return False
        self._looked = time.monotonic()
        self._due = True
        observation = self._observe()
        return observation is None or all(
            report.state.ended or _is_older(self._query, report.attempt)
            for report in observation.replicas
            if _asked_for(self._query, ReplicaKey(report.role, report.index, self._query.attempt or report.attempt))
        )

    def find(self) -> Iterator[tuple[Path, str]]:
        if self._due:
            self._due = False
            self._pull_all()
        for source in self._sources.values():
            yield source.path, source.name

    def _pull_all(self) -> None:
        archived = self._archive.logs(self._job_id)
        for attempt in self._attempts():
            for key, pod in sorted(attempt.pods().items()) if not attempt.cleared else ():
                if not _asked_for(self._query, key):
                    continue
                view = PodView(pod, now())
                name = str(view.metadata["name"])
                many = len(view.logged) > 1
                self._take_archived(name, key, many, archived.pop(name, []))
                for container in view.logged:
                    if container.began:
                        source = self._source(name, container.name, key, many)
                        source.pull(self._api, attempt.namespace, name, container, self._query)
        for name, files in archived.items():
            gone = key_of_name(self._job_id, name)
            if gone is not None and _asked_for(self._query, gone):
                self._take_archived(name, gone, len({container for container, _ in files}) > 1, files)

    def _take_archived(self, pod: str, key: ReplicaKey, many: bool, files: Iterable[tuple[str, str]]) -> None:
        for container, path in files:
            if path not in self._archived:
                self._archived.add(path)
                self._source(pod, container, key, many).take(self._archive.read(path))

    def _source(self, pod: str, container: str, key: ReplicaKey, many: bool) -> _Source:
        name = f"{key.role}-{key.index}" + (f"/{container}" if many else "")
        path = self._directory / f"{len(self._sources)}.log"
        return self._sources.setdefault((pod, container), _Source(path, name))


def _asked_for(query: LogQuery, key: ReplicaKey) -> bool:
    wanted = ((query.role, key.role), (query.index, key.index), (query.attempt, key.attempt))
    return all(asked is None or asked == own for asked, own in wanted)


def _is_older(query: LogQuery, latest: int) -> bool:
    return query.attempt is not None and query.attempt < latest


def too_late(at: datetime, ended: datetime | None, stopped: datetime | None, wait_seconds: float) -> bool:
    """Whether logs that could not be stored so far have been waited for long enough."""
    since = max((moment for moment in (ended, stopped) if moment), default=datetime.min.replace(tzinfo=UTC))
    return (at - since).total_seconds() > wait_seconds
