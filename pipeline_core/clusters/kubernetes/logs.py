"""The log of a job: containers that the cluster has from there, others from the archive, merged by time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline_core.clock import now
from pipeline_core.clusters.base import ClusterAway, LogLine, LogQuery, Observation, ReplicaKey
from pipeline_core.clusters.kubernetes.api import Api
from pipeline_core.clusters.kubernetes.archive import Archive
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
    """Put the whole logs of a pod's containers into the archive. Raises ClusterAway."""
    view = PodView(pod, now())
    for place, container in enumerate(view.containers):
        if container.began:
            name = str(view.metadata["name"])
            lines = _whole_log(api, attempt.namespace, name, container)
            archive.store(attempt.job_id, name, place, container.name, lines)


def _whole_log(api: Api, namespace: str, pod: str, container: Container) -> Iterator[bytes]:
    if container.restarts:
        yield from container_log(api, namespace, pod, container.name, previous=True)
    yield from container_log(api, namespace, pod, container.name)


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
        there: set[str] = set()
        for attempt in self._attempts():
            for key, pod in sorted(attempt.pods().items()) if not attempt.cleared else ():
                view = PodView(pod, now())
                name = str(view.metadata["name"])
                there.add(name)
                if _asked_for(self._query, key):
                    for container in view.containers:
                        if container.began:
                            source = self._source(name, container.name, key, len(view.containers))
                            source.pull(self._api, attempt.namespace, name, container, self._query)
        self._take_archived(there)

    def _take_archived(self, there: set[str]) -> None:
        """Logs of pods that are gone; a log that is complete is read once."""
        for pod, containers in self._archive.logs(self._job_id).items():
            if pod in there or pod in self._archived:
                continue
            self._archived.add(pod)
            key = key_of_name(self._job_id, pod)
            if key is not None and _asked_for(self._query, key):
                for name, path in containers:
                    self._source(pod, name, key, len(containers)).take(self._archive.read(path))

    def _source(self, pod: str, container: str, key: ReplicaKey, containers: int) -> _Source:
        name = f"{key.role}-{key.index}" + (f"/{container}" if containers > 1 else "")
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
