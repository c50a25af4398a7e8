"""The log of a job: containers that the cluster has from there, others from the archive, merged by time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from pipeline_core.clusters import logs as merging
from pipeline_core.clusters.base import ClusterUnavailable, LogLine, LogQuery, Observation, ReplicaKey
from pipeline_core.clusters.kubernetes.api import Api
from pipeline_core.clusters.kubernetes.archive import Archive, RunLog
from pipeline_core.clusters.kubernetes.attempt import AT_A_TIME, Json, KubernetesAttempt
from pipeline_core.clusters.kubernetes.objects import replica_attempt_of_pod
from pipeline_core.clusters.kubernetes.podlogs import Resume, container_log
from pipeline_core.clusters.kubernetes.pods import PodContainer, PodView
from pipeline_core.clusters.logs import ReplicaAttempt
from pipeline_core.common.clock import now

POLL_SECONDS = 1.0


def read(
    api: Api,
    archive: Archive,
    job_id: str,
    query: LogQuery,
    attempts: Callable[[], list[KubernetesAttempt]],
    observe: Callable[[], Observation | None],
) -> Iterator[LogLine | None]:
    """The lines that are asked for; with `query.follow`, until all tries that are asked for have ended."""
    with tempfile.TemporaryDirectory(prefix="pipeline-logs-") as directory:
        sources = _Sources(api, archive, job_id, query, attempts, observe, Path(directory))
        yield from merging.read(query, sources.find, sources.over)


class _Source:
    """The log of one container, collected in a file of whole lines that only grows."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self._resume = Resume()
        self._restarts: int | None = None

    def pull(self, api: Api, namespace: str, pod: str, container: PodContainer, query: LogQuery) -> None:
        """Fetch what came since. A log that cannot be had now is fetched another time."""
        began = now()
        first = self._restarts is None
        # Where the archive has a part of it, all that came after that is needed.
        tail = query.tail if first and not self._resume.since else None
        if first and query.since:
            self._resume.begin(query.since)
        restarted = container.restarts > (self._restarts or 0)
        try:
            for previous in (True, False) if restarted else (False,):
                lines = container_log(
                    api,
                    namespace,
                    pod,
                    container.name,
                    previous=previous,
                    since=self._resume.since,
                    tail=tail,
                    ended=previous or not container.running,
                )
                self._write(self._resume.new(lines))
        except ClusterUnavailable:
            return
        self._restarts = container.restarts
        if tail is not None:
            self._resume.begin(began)

    def take(self, archive: Archive, job_id: str, log: RunLog) -> None:
        """Take what the archive has of one of the container's runs."""
        self._write(self._resume.new(archive.lines(job_id, log)))

    def _write(self, lines: Iterable[bytes]) -> None:
        with self.path.open("ab") as file:
            for line in lines:
                file.write(line + b"\n")


class _Sources:
    """Collects logs into files, from where they are merged."""

    def __init__(
        self,
        api: Api,
        archive: Archive,
        job_id: str,
        query: LogQuery,
        attempts: Callable[[], list[KubernetesAttempt]],
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
        self._taken: dict[RunLog, int] = {}
        self._due = True
        self._looked = float("-inf")

    def over(self) -> bool:
        """Whether everything that is followed has ended. Looks once in a while only, and then makes `find` do so too."""
        if time.monotonic() - self._looked < POLL_SECONDS:
            return False
        self._looked = time.monotonic()
        self._due = True
        observation = self._observe()
        if observation is None:
            return True
        going = {
            (observation.attempt, ReplicaKey(report.role, report.index, report.attempt))
            for report in observation.replicas
            if not report.state.ended
        }
        known = {one for attempt in self._attempts() for one in _tries(attempt)}
        return not going & merging.chosen(self._query, known | going)

    def find(self) -> Iterator[tuple[Path, str]]:
        if self._due:
            self._due = False
            self._collect()
        for source in self._sources.values():
            yield source.path, source.name

    def _collect(self) -> None:
        archived = self._archive.runs(self._job_id)
        there = [(attempt, attempt.pods() if not attempt.cleared else {}) for attempt in self._attempts()]
        tries = {one for attempt, pods in there for one in (*_tries(attempt), *((attempt.number, key) for key in pods))}
        gone = {log: one for log in archived if (one := replica_attempt_of_pod(self._job_id, log.pod)) is not None}
        wanted = merging.chosen(self._query, [*tries, *gone.values()])
        pulls = [
            pull
            for attempt, pods in there
            for key, pod in sorted(pods.items())
            if (attempt.number, key) in wanted
            for pull in self._pulls(attempt, key, pod, archived)
        ]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for _ in pool.map(lambda pull: pull(), pulls):
                pass
        live = {str(pod["metadata"]["name"]) for _, pods in there for pod in pods.values()}
        for log, (number, key) in gone.items():
            if (number, key) in wanted and log.pod not in live:
                many = len({one.container for one in archived if one.pod == log.pod}) > 1
                self._take(log, key, many, len(archived[log]))

    def _pulls(
        self, attempt: KubernetesAttempt, key: ReplicaKey, pod: Json, archived: Iterable[RunLog]
    ) -> Iterator[Callable[[], None]]:
        """What the cluster has, after what only the archive may have yet."""
        view = PodView(pod, now())
        name = str(view.metadata["name"])
        many = len(view.logged) > 1
        for log in archived:
            if log.pod == name and log not in self._taken:
                self._take(log, key, many, 0)
        for container in view.logged:
            if container.began:
                source = self._source(name, container.name, key, many)
                yield partial(source.pull, self._api, attempt.namespace, name, container, self._query)

    def _take(self, log: RunLog, key: ReplicaKey, many: bool, files: int) -> None:
        """Take a run from the archive, again when it has other files than before."""
        if self._taken.get(log) != files:
            self._taken[log] = files
            self._source(log.pod, log.container, key, many).take(self._archive, self._job_id, log)

    def _source(self, pod: str, container: str, key: ReplicaKey, many: bool) -> _Source:
        name = f"{key.role}-{key.index}" + (f"/{container}" if many else "")
        path = self._directory / f"{len(self._sources)}.log"
        return self._sources.setdefault((pod, container), _Source(path, name))


def _tries(attempt: KubernetesAttempt) -> Iterator[ReplicaAttempt]:
    for key in attempt.ledger.launched | attempt.ledger.ended.keys():
        yield attempt.number, key
