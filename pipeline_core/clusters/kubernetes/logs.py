"""The log of a job: from the cluster for the pods that it has, else from the archive, merged by time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path

from pipeline_core.clusters import logs as merging
from pipeline_core.clusters.base import ClusterUnavailable, LogLine, LogQuery, Observation, ReplicaKey
from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi
from pipeline_core.clusters.kubernetes.archive import Archive, RunLog
from pipeline_core.clusters.kubernetes.attempt import MAX_CONCURRENT, Json, KubernetesAttempt
from pipeline_core.clusters.kubernetes.objects import replica_attempt_of_pod
from pipeline_core.clusters.kubernetes.pod_view import PodContainer, PodView
from pipeline_core.clusters.kubernetes.podlogs import Resume, container_log
from pipeline_core.clusters.logs import LogFile, ReplicaAttempt
from pipeline_core.common.clock import now, rfc3339

POLL_SECONDS = 1.0
UNREACHABLE = "[pipeline: the cluster cannot be reached now, later lines are not shown]"


def read(
    api: KubernetesApi,
    archive: Archive,
    job_id: str,
    query: LogQuery,
    attempts: Callable[[], list[KubernetesAttempt]],
    observe: Callable[[], Observation | None],
) -> Iterator[LogLine | None]:
    """The lines that the query asks for; with `query.follow`, until all its replica attempts have ended."""
    with tempfile.TemporaryDirectory(prefix="pipeline-logs-") as directory:
        sources = _Sources(api, archive, job_id, query, attempts, observe, Path(directory))
        yield from merging.read(query, sources.find, sources.over)


class _Source:
    """The log of one container, copied into a file of whole lines that only grows."""

    def __init__(self, path: Path, name: str, origin: str = "") -> None:
        self.file = LogFile(path, name, origin)
        self._resume = Resume()
        self._restarts: int | None = None

    def pull(self, api: KubernetesApi, namespace: str, pod: str, container: PodContainer, query: LogQuery) -> None:
        """Copy what was written since the last call. A log that cannot be read now is read the next time."""
        began = now()
        first = self._restarts is None
        # Where the archive has a part of the log, all that follows is needed.
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

    def copy_archived(self, archive: Archive, job_id: str, log: RunLog, since: datetime | None) -> None:
        """Copy what the archive has of one run of the container."""
        self._write(self._resume.new(archive.lines(job_id, log, since)))

    def _write(self, lines: Iterable[bytes]) -> None:
        with self.file.path.open("ab") as file:
            for line in lines:
                file.write(line + b"\n")


class _Sources:
    """Copies logs into files, from which they are merged."""

    def __init__(
        self,
        api: KubernetesApi,
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
        self._copied: dict[RunLog, int] = {}
        self._due = True
        self._looked = float("-inf")

    def over(self) -> bool:
        """Whether all that is followed has ended. Polls every POLL_SECONDS at most, and then makes `find` poll too."""
        if time.monotonic() - self._looked < POLL_SECONDS:
            return False
        self._looked = time.monotonic()
        self._due = True
        try:
            observation = self._observe()
        except ClusterUnavailable:
            # What is stored meanwhile is shown, and the rest when the cluster can be asked again.
            return False
        if observation is None:
            return True
        running = {
            (observation.attempt, ReplicaKey(report.role, report.index, report.attempt))
            for report in observation.replicas
            if not report.state.ended
        }
        attempts = {one for attempt in self._attempts() for one in _replica_attempts(attempt)}
        return not running & merging.chosen(self._query, attempts | running)

    def find(self) -> Iterator[LogFile]:
        if self._due:
            self._due = False
            self._collect()
        for source in self._sources.values():
            yield source.file

    def _collect(self) -> None:
        archived = self._archive.runs(self._job_id)
        attempts = self._attempts_with_pods(stored=bool(archived))
        found = {
            one
            for attempt, pods in attempts
            for one in (*_replica_attempts(attempt), *((attempt.number, key) for key in pods))
        }
        archived_attempts = {
            log: one for log in archived if (one := replica_attempt_of_pod(self._job_id, log.pod)) is not None
        }
        wanted = merging.chosen(self._query, [*found, *archived_attempts.values()])
        pulls = [
            pull
            for attempt, pods in attempts
            for key, pod in sorted(pods.items())
            if (attempt.number, key) in wanted
            for pull in self._pulls(attempt, key, pod, archived)
        ]
        with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
            for _ in pool.map(lambda pull: pull(), pulls):
                pass
        live = {str(pod["metadata"]["name"]) for _, pods in attempts for pod in pods.values()}
        for log, (number, key) in archived_attempts.items():
            if (number, key) in wanted and log.pod not in live:
                many = len({one.container for one in archived if one.pod == log.pod}) > 1
                self._copy(log, key, many, len(archived[log]))

    def _attempts_with_pods(self, *, stored: bool) -> list[tuple[KubernetesAttempt, Mapping[ReplicaKey, Json]]]:
        """The attempts that the cluster has; none while it cannot be asked, if the archive has something to show."""
        try:
            return [(attempt, attempt.pods() if not attempt.cleared else {}) for attempt in self._attempts()]
        except (ApiError, ClusterUnavailable):
            if not (stored or self._sources):
                raise
            if not self._query.follow:
                self._add_note(UNREACHABLE)
            return []

    def _add_note(self, text: str) -> None:
        """Show a line of the service's own after all others."""
        source = self._sources.setdefault(("", ""), _Source(self._directory / "note.log", "pipeline"))
        source.file.path.write_text(f"{rfc3339(now())} {text}\n")

    def _pulls(
        self, attempt: KubernetesAttempt, key: ReplicaKey, pod: Json, archived: Iterable[RunLog]
    ) -> Iterator[Callable[[], None]]:
        """Calls that copy a pod's logs from the cluster, after copying what only the archive may have."""
        view = PodView(pod, now())
        name = str(view.metadata["name"])
        many = len(view.logged) > 1
        for log in archived:
            if log.pod == name and log not in self._copied:
                self._copy(log, key, many, 0)
        for container in view.logged:
            if container.began:
                source = self._source(name, container.name, key, many)
                yield partial(source.pull, self._api, attempt.namespace, name, container, self._query)

    def _copy(self, log: RunLog, key: ReplicaKey, many: bool, files: int) -> None:
        """Copy a run from the archive; again when it has other files there than before."""
        if self._copied.get(log) != files:
            self._copied[log] = files
            self._source(log.pod, log.container, key, many).copy_archived(
                self._archive, self._job_id, log, self._query.since
            )

    def _source(self, pod: str, container: str, key: ReplicaKey, many: bool) -> _Source:
        name = f"{key.role}-{key.index}" + (f"/{container}" if many else "")
        path = self._directory / f"{len(self._sources)}.log"
        return self._sources.setdefault((pod, container), _Source(path, name, f"{pod}/{container}"))


def _replica_attempts(attempt: KubernetesAttempt) -> Iterator[ReplicaAttempt]:
    for key in attempt.ledger.launched | attempt.ledger.ended.keys():
        yield attempt.number, key
