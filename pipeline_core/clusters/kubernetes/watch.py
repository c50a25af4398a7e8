"""Hearing of changes: list, then watch from there, for as long as it takes."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from sys import intern
from typing import Any

import urllib3

from pipeline_core.clusters.base import ClusterUnavailable, Observation, ReplicaReport
from pipeline_core.clusters.kubernetes.api import METADATA_LIST, Api, ApiError, refusals
from pipeline_core.clusters.kubernetes.objects import ATTEMPT, JOB, STOPPED, platform_of
from pipeline_core.clusters.kubernetes.pods import PodView
from pipeline_core.clusters.kubernetes.rules import Judgement, WaitLimits, count_results, judge_view
from pipeline_core.common.clock import now
from pipeline_core.states import ReplicaState

SIGN_OF_LIFE_SECONDS = 5.0
STOP_POLL_SECONDS = 0.25
WATCH_SECONDS = 240
"""The API server ends a watch after this time; one that is not ended then has been cut off silently."""
SILENCE_SECONDS = 90.0
"""Bookmarks come about once a minute, so a connection that is silent for longer is renewed."""
AT_ONCE = 200
"""So many jobs are taken in at once."""
PODS_AT_ONCE = 100
"""So many pods are listed at once: with lists of hosts, one may have 100 KB."""
SHORT_SECONDS = 1.0
"""A watch that was over so soon is not begun again at once."""
GONE = 410


class WatchExpired(Exception):
    """What happened since the given version is not known any more."""


def changes(
    api: Api, namespaces: Collection[str], told: ObservationCache, stop: threading.Event
) -> Iterator[Collection[str]]:
    """IDs of jobs as `Cluster.watch` has them, of all these namespaces. Raises ClusterUnavailable."""
    heard = _Heard()
    over = threading.Event()
    listeners = [_Listener(api, namespace, heard, told, over) for namespace in namespaces]
    for listener in listeners:
        listener.start()
    quiet = 0.0
    try:
        while not stop.is_set():
            job_ids = heard.all(STOP_POLL_SECONDS)
            quiet = 0.0 if job_ids else quiet + STOP_POLL_SECONDS
            if job_ids or quiet >= SIGN_OF_LIFE_SECONDS:
                quiet = 0.0
                yield job_ids
    finally:
        over.set()
        for listener in listeners:
            listener.cut()


class _Heard:
    """Jobs that were heard of and not taken yet, each once, however much happens to it meanwhile."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: dict[str, None] = {}
        self._error: ClusterUnavailable | None = None

    def add(self, job_id: str) -> None:
        with self._changed:
            self._jobs.setdefault(job_id)
            self._changed.notify()

    def fail(self, error: ClusterUnavailable) -> None:
        with self._changed:
            self._error = error
            self._changed.notify()

    def all(self, seconds: float) -> tuple[str, ...]:
        """The jobs that wait, at most so many as are taken in at once, those that wait the longest first; none when none
        comes up in that time. Raises what a listener failed with."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._error, seconds)
            if self._error is not None:
                raise self._error
            job_ids = tuple(islice(self._jobs, AT_ONCE))
            for job_id in job_ids:
                del self._jobs[job_id]
            return job_ids


class _Listener(threading.Thread):
    """Listens to one namespace and tells what it hears; the error, when it cannot go on."""

    def __init__(self, api: Api, namespace: str, heard: _Heard, told: ObservationCache, over: threading.Event) -> None:
        super().__init__(daemon=True, name=f"watch {namespace}")
        self._api = api
        self._namespace = namespace
        self._base = f"/api/v1/namespaces/{namespace}"
        self._heard = heard
        self._told = told
        self._over = over
        self._response: urllib3.BaseHTTPResponse | None = None

    def run(self) -> None:
        try:
            while not self._over.is_set():
                with refusals("watching pods"):
                    self._listen()
        except Exception as error:  # noqa: BLE001 - it is raised again where the changes are taken in
            self._heard.fail(ClusterUnavailable(f"watching the cluster failed: {error}"))

    def cut(self) -> None:
        """End the connection that is being read, if there is one."""
        response = self._response
        connection = getattr(response, "connection", None)
        if connection is not None and connection.sock is not None:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def _listen(self) -> None:
        """All pods and all jobs, then what becomes of them, until the server has forgotten where we were."""
        try:
            pods = self._api.pages(f"{self._base}/pods", JOB, PODS_AT_ONCE)
            version, first = next(pods)
            lost = self._told.begin(self._namespace, chain(first, chain.from_iterable(items for _, items in pods)))
            for control in self._api.items(f"{self._base}/configmaps", f"{JOB},!{STOPPED}", accept=METADATA_LIST):
                self._told.know(control)
                self._heard.add(control["metadata"]["labels"][JOB])
            for job_id in lost:
                self._heard.add(job_id)
            while not self._over.is_set():
                began = time.monotonic()
                version = self._watch(version)
                if time.monotonic() - began < SHORT_SECONDS:
                    self._over.wait(SHORT_SECONDS)
        except WatchExpired:
            return
        except ApiError as error:
            # A list that was not read to its end within minutes expires too.
            if error.status != GONE:
                raise

    def _watch(self, version: str) -> str:
        """Watch once; the version up to which everything was heard. Raises WatchExpired."""
        query = {
            "labelSelector": JOB,
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": random.randint(WATCH_SECONDS // 2, WATCH_SECONDS),
        }
        try:
            with self._api.open("GET", f"{self._base}/pods", query, read_seconds=SILENCE_SECONDS) as response:
                self._response = response
                # Whoever stops the watch looks for the response after that: one of the two sees the other.
                for line in _lines(response) if not self._over.is_set() else ():
                    version = self._take(json.loads(line))
                    if self._over.is_set():
                        break
        except ApiError as error:
            if error.status == GONE:
                raise WatchExpired from error
            raise
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            # Cut off, silent, or cut in the middle of a line: go on from what was heard last.
            return version
        finally:
            self._response = None
        return version

    def _take(self, event: Any) -> str:
        found = event["object"]
        if event["type"] == "ERROR":
            if found.get("code") == GONE:
                raise WatchExpired
            raise ApiError(int(found.get("code") or 500), str(found.get("message")))
        if event["type"] != "BOOKMARK" and self._told.take(event["type"], found):
            self._heard.add(found["metadata"]["labels"][JOB])
        return str(found["metadata"]["resourceVersion"])


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for block in response.stream(amt=None, decode_content=False):
        *lines, rest = (rest + block).split(b"\n")
        yield from (line for line in lines if line)


Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Pod:
    """Of a pod that is `plain`, its status says all that there is to know, and nothing has to be done about it."""

    attempt: int
    owner: str
    judgement: Judgement
    plain: bool


@dataclass(slots=True)
class _Job:
    """A job that has pods. `owner` is the UID of the control unit of its newest attempt, as far as is known; `ask` says
    that only the cluster can say more."""

    namespace: str
    attempt: int = -1
    owner: str = ""
    pods: dict[str, _Pod] = field(default_factory=dict)
    ask: bool = False


class ObservationCache:
    """The judgements on all pods that the watch has told of, by job. Pods themselves are not kept: there may be many.

    Safe for any number of threads.
    """

    def __init__(self, limits: WaitLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}

    def know(self, control: Json) -> None:
        """Take note of a control unit: its pods are those that count for its job."""
        metadata = control["metadata"]
        number = int(metadata["labels"][ATTEMPT])
        with self._lock:
            job = self._jobs.get(metadata["labels"][JOB])
            if job is not None and number >= job.attempt:
                job.attempt, job.owner = number, metadata["uid"]

    def begin(self, namespace: str, pods: Iterable[Json]) -> list[str]:
        """All pods that a namespace has; the jobs of which one has gone since it was told of."""
        with self._lock:
            before = {job_id: job for job_id, job in self._jobs.items() if job.namespace == namespace}
            for job_id in before:
                del self._jobs[job_id]
        for pod in pods:
            self.take("ADDED", pod)
        with self._lock:
            lost = [job_id for job_id, job in before.items() if self._lost(job_id, job)]
            for job_id in self._jobs.keys() & set(lost):
                self._jobs[job_id].ask = True
        return lost

    def take(self, kind: str, pod: Json) -> bool:
        """Take in an event of the watch; whether it says anything new. `kind` is ADDED, MODIFIED or DELETED."""
        metadata = pod["metadata"]
        job_id, name = metadata["labels"][JOB], metadata["name"]
        if kind == "DELETED":
            return self._drop(job_id, name)
        told = _judged(pod, self._limits)
        with self._lock:
            job = self._jobs.setdefault(job_id, _Job(metadata["namespace"]))
            before = job.pods.get(name)
            if told is None:
                job.ask = True
                return True
            job.pods[name] = told
            job.ask |= not told.plain
            return before != told or not told.plain

    def observation(self, job_id: str) -> Observation | None:
        """How a job's replicas stand, of those that there are pods of; None when the cluster has to be asked."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or not job.owner or job.ask:
                if job is not None:
                    job.ask = False
                return None
            pods = [pod for pod in job.pods.values() if pod.owner == job.owner]
            attempt, namespace = job.attempt, job.namespace
            if not pods or any(pod.attempt > attempt for pod in job.pods.values()):
                return None
        plain = [pod.judgement for pod in pods if pod.plain]
        if len(plain) < len(pods) and any(one.report.state.ended for one in plain):
            # How many came to which result can be said of all together only.
            return None
        latest: dict[tuple[str, int], ReplicaReport] = {}
        for report in sorted((one.report for one in plain), key=lambda one: one.attempt):
            latest[report.role, report.index] = report
        platform = platform_of(job_id, attempt, namespace, count_results(plain)) if len(plain) == len(pods) else {}
        return Observation(job_id, attempt, tuple(latest.values()), platform)

    def _drop(self, job_id: str, name: str) -> bool:
        with self._lock:
            job = self._jobs.get(job_id)
            gone = job.pods.pop(name, None) if job else None
            if job is None or gone is None:
                return False
            ended = gone.judgement.report.state.ended
            job.ask |= not ended
            if not job.pods:
                del self._jobs[job_id]
            return not ended

    def _lost(self, job_id: str, before: _Job) -> bool:
        here = self._jobs[job_id].pods if job_id in self._jobs else {}
        return any(name not in here for name, pod in before.pods.items() if not pod.judgement.report.state.ended)


def _judged(pod: Json, limits: WaitLimits) -> _Pod | None:
    """None for a pod that cannot be one of ours."""
    try:
        view = PodView(pod, now())
        judgement = judge_view(view, limits)
        attempt = int(pod["metadata"]["labels"][ATTEMPT])
        (owner,) = pod["metadata"]["ownerReferences"]
    except (KeyError, ValueError):
        return None
    plain = not (
        judgement.end
        or judgement.report.state is ReplicaState.FAILED
        or view.restarts
        or view.ending_for
        or view.deletion_asked
    )
    return _Pod(attempt, intern(owner["uid"]), judgement, plain)
