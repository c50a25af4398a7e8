"""Copies logs into the archive: whole logs of runs that have ended, and pieces of those that have not.

A node keeps the log of a container only while its pod exists, and of a long log only the end. So the process that watches
the cluster also archives, at intervals, what running containers have written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import chain
from typing import Any

import structlog

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.kubernetes.api import KubernetesApi, refusals
from pipeline_core.clusters.kubernetes.archive import Archive, ArchiveUnavailable, RunLog
from pipeline_core.clusters.kubernetes.objects import JOB
from pipeline_core.clusters.kubernetes.pod_view import PodContainer, PodView
from pipeline_core.clusters.kubernetes.podlogs import Resume, container_log
from pipeline_core.common.clock import now

log = structlog.get_logger(__name__)

ROUND_PAUSE_SECONDS = 30.0
"""Pause between two rounds over the running containers."""
REQUESTS_PER_SECOND = 50
MAX_CONCURRENT = 4
MOST_FOLLOWED = 64
"""Containers of pods that are being deleted whose logs are followed at a time; others are collected when they are observed."""
FLUSH_SECONDS = 1.0
PIECE_BYTES = 4 * 1024 * 1024
ARCHIVE_UNAVAILABLE_SECONDS = 24 * 3600.0
"""How long pods that have ended are kept while the archive cannot be used."""

Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One run of a container: where it is in the cluster and in the archive."""

    job_id: str
    namespace: str
    uid: str
    log: RunLog


def store(api: KubernetesApi, archive: Archive, pod: Pod) -> None:
    """Store the logs of a pod's ended containers: all runs that the cluster still has and the archive has not.

    Raises ClusterUnavailable.
    """
    view = PodView(pod, now())
    for place, container in enumerate(view.logged):
        for number, previous in ((container.restarts - 1, True), (container.restarts, False)):
            over = previous or view.phase_ended or (container.began and not container.running)
            run = _run(view, place, container, number)
            stored = archive.has(run.job_id, run.log) if number >= 0 and over else True
            if stored and (previous or view.settled or not over):
                continue
            # Of a container that is gone before its pod, the node may not know any more that it ever began.
            known = container.began is not None
            lines = _whole(api, archive, run, previous=previous) if known else archive.lines(run.job_id, run.log)
            first = next(lines, None)
            # An empty log is stored in the end, so that the archive knows of all containers.
            if first is not None or (view.phase_ended and not previous and not stored):
                archive.store(run.job_id, run.log, chain([first] if first else [], lines))


class Archiving(Enum):
    """Whether the logs of an ended pod are in the archive. LATE: they are not, and the time to wait for them is over."""

    UNDER_WAY = "under way"
    LATE = "late"
    DONE = "done"


def waited(at: datetime, ended: datetime | None, stopped: datetime | None) -> float:
    """Seconds for which the logs of a pod have been waited for: since its end, or the stop of its attempt if later."""
    since = max((moment for moment in (ended, stopped) if moment), default=datetime.min.replace(tzinfo=UTC))
    return (at - since).total_seconds()


def archiving_after(error: ClusterUnavailable, seconds: float, wait_seconds: float) -> Archiving:
    """Decides after an error in storing logs, which have been waited for `seconds`.

    A log that cannot be read is given up after `wait_seconds`, since it may be lost with its node. The archive is waited for
    longer, but only the deletion of the pod waits with it.
    """
    if seconds <= wait_seconds:
        return Archiving.UNDER_WAY
    if not isinstance(error, ArchiveUnavailable) or seconds > ARCHIVE_UNAVAILABLE_SECONDS:
        return Archiving.DONE
    return Archiving.LATE


def store_running(api: KubernetesApi, archive: Archive, pod: Pod) -> None:
    """Store what a pod's running containers have written so far. Raises ClusterUnavailable."""
    for run in _running(pod):
        _add(api, archive, run, _resume_from_archive(archive, run))


class EndingLogs:
    """Follows the logs of containers whose pods are being deleted until they end: nobody can read them after that."""

    def __init__(self, api: KubernetesApi, archive: Archive) -> None:
        self._api = api
        self._archive = archive
        self._lock = threading.Lock()
        self._followed: set[ContainerRun] = set()

    def follow(self, pod: Pod) -> None:
        """Follow the running containers of a pod that is being deleted, each in a thread, unless that is being done."""
        if not pod["metadata"].get("deletionTimestamp"):
            return
        for run in _running(pod):
            with self._lock:
                if run in self._followed or len(self._followed) >= MOST_FOLLOWED:
                    continue
                self._followed.add(run)
            threading.Thread(target=self._follow, args=(run,), daemon=True, name="ending-log").start()

    def is_following(self, pod: Pod) -> bool:
        """Whether a container of the pod is being followed: what is in the archive is not all then."""
        with self._lock:
            return any(run.uid == pod["metadata"]["uid"] for run in self._followed)

    def _follow(self, run: ContainerRun) -> None:
        try:
            resume = _resume_from_archive(self._archive, run)
            _add(self._api, self._archive, run, resume, follow=True)
        except ClusterUnavailable as error:
            log.warning("log of an ending pod broke off", job_id=run.job_id, pod=run.log.pod, error=error.message)
        finally:
            with self._lock:
                self._followed.discard(run)


class LogArchiver:
    """Archives the logs of all running containers of some namespaces, in rounds that start where the last one ended."""

    def __init__(
        self, api: KubernetesApi, archive: Archive, namespaces: Collection[str], over: threading.Event
    ) -> None:
        self._api = api
        self._archive = archive
        self._namespaces = namespaces
        self._over = over
        self._resumes: dict[ContainerRun, Resume] = {}

    def start(self) -> None:
        """Archive in a thread, until `over` is set."""
        threading.Thread(target=self._run_rounds, daemon=True, name="logs").start()

    def round(self) -> None:
        """Archive the logs of every running container once. Raises ClusterUnavailable when the pods cannot be listed."""
        resumes: dict[ContainerRun, Resume] = {}
        with ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="logs") as pool:
            for pod in self._pods():
                for run in _running(pod):
                    if self._over.wait(1 / REQUESTS_PER_SECOND):
                        pool.shutdown(cancel_futures=True)
                        return
                    pool.submit(self._visit, run, resumes)
        self._resumes = resumes

    def _run_rounds(self) -> None:
        while not self._over.wait(ROUND_PAUSE_SECONDS):
            try:
                self.round()
            except ClusterUnavailable as error:
                log.warning("logs not archived", error=error.message)

    def _pods(self) -> Iterator[Pod]:
        for namespace in self._namespaces:
            with refusals("archiving logs"):
                yield from self._api.items(f"/api/v1/namespaces/{namespace}/pods", JOB, fields="status.phase=Running")

    def _visit(self, run: ContainerRun, resumes: dict[ContainerRun, Resume]) -> None:
        """Archive the log of one run. After a failure the next round starts from what the archive has then."""
        try:
            resume = self._resumes.get(run) or _resume_from_archive(self._archive, run)
            _add(self._api, self._archive, run, resume)
        except ClusterUnavailable as error:
            log.warning("log not archived", job_id=run.job_id, pod=run.log.pod, error=error.message)
        else:
            resumes[run] = resume


def _add(api: KubernetesApi, archive: Archive, run: ContainerRun, resume: Resume, *, follow: bool = False) -> None:
    """Store what was written since `resume`, in pieces. With `follow`, until the run has ended, a piece each second at most."""
    pieces = _pieces(resume, _log(api, run, resume, ended=follow, follow=follow), FLUSH_SECONDS if follow else None)
    for first, piece in pieces:
        archive.add(run.job_id, run.log, first, piece)


def _pieces(resume: Resume, lines: Iterator[bytes], seconds: float | None) -> Iterator[tuple[int, list[bytes]]]:
    """The new lines in pieces of PIECE_BYTES, or of what came in so many seconds, each with the number of its first line.

    What was read before the lines broke off is a piece too.
    """
    piece: list[bytes] = []
    size, first, since = 0, resume.count, time.monotonic()
    try:
        for line in resume.new(lines):
            piece.append(line)
            size += len(line)
            if size >= PIECE_BYTES or (seconds is not None and time.monotonic() - since >= seconds):
                yield first, piece
                piece, size, first, since = [], 0, resume.count, time.monotonic()
    except ClusterUnavailable:
        if piece:
            yield first, piece
        raise
    if piece:
        yield first, piece


def _resume_from_archive(archive: Archive, run: ContainerRun) -> Resume:
    resume = Resume(mark_gaps=True)
    for _ in resume.new(archive.lines(run.job_id, run.log)):
        pass
    return resume


def _whole(api: KubernetesApi, archive: Archive, run: ContainerRun, *, previous: bool) -> Iterator[bytes]:
    """The lines of a run: those in the archive, then the rest from the cluster.

    When the API server loses its node in the middle of a log, the log seems to end there: so the last line is checked too.
    """
    resume = Resume(mark_gaps=True)
    last = b""
    for part in (archive.lines(run.job_id, run.log), _log(api, run, resume, previous=previous)):
        for line in resume.new(part):
            last = max(last, line, key=_place)
            yield line
    for line in container_log(api, run.namespace, run.log.pod, run.log.container, previous=previous, tail=1):
        if _place(line) > _place(last):
            raise ClusterUnavailable(f"the log of {run.log.pod} broke off")


def _place(line: bytes) -> tuple[bytes, bytes]:
    """A key that sorts lines by time, and a torn line before the whole one."""
    stamp, _, text = line.partition(b" ")
    return stamp[:-1], text


def _log(
    api: KubernetesApi,
    run: ContainerRun,
    resume: Resume,
    *,
    previous: bool = False,
    ended: bool = True,
    follow: bool = False,
) -> Iterator[bytes]:
    """The lines from where `resume` is when the first one is taken."""
    since = resume.since
    yield from container_log(
        api, run.namespace, run.log.pod, run.log.container, previous=previous, since=since, ended=ended, follow=follow
    )


def _running(pod: Pod) -> Iterator[ContainerRun]:
    try:
        view = PodView(pod, now())
    except (KeyError, ValueError):
        # A pod of somebody else that has our label.
        return
    for place, container in enumerate(view.logged):
        if container.running:
            yield _run(view, place, container, container.restarts)


def _run(view: PodView, place: int, container: PodContainer, number: int) -> ContainerRun:
    metadata = view.metadata
    run_log = RunLog(str(metadata["name"]), place, container.name, number)
    return ContainerRun(str(metadata["labels"][JOB]), str(metadata["namespace"]), str(metadata["uid"]), run_log)
