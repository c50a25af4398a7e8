"""The watch: lists the pods, watches them from that version on, and caches observations.

The cache has judgements of pods, from which most jobs can be observed without another request to the API server.
"""

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
from pipeline_core.clusters.kubernetes.api import METADATA_LIST, ApiError, KubernetesApi, refusals
from pipeline_core.clusters.kubernetes.objects import ATTEMPT, JOB, STOPPED, platform_of
from pipeline_core.clusters.kubernetes.pod_rules import Judgement, WaitLimits, count_results, judge_view
from pipeline_core.clusters.kubernetes.pod_view import PodView
from pipeline_core.common.clock import now
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.states import ReplicaState

IDLE_SECONDS = 5.0
STOP_POLL_SECONDS = 0.25
WATCH_SECONDS = 240
"""The API server ends a watch after this time; one that is not ended then has been cut off silently."""
SILENCE_SECONDS = 90.0
"""Bookmarks come about once a minute, so a connection that is silent for longer is renewed."""
AT_ONCE = 200
"""Jobs that are yielded at a time."""
PODS_AT_ONCE = 100
"""Pods in a page of a list: with lists of hosts, one may have 100 KB."""
SHORT_SECONDS = 1.0
"""A watch that ended sooner is followed by a pause of this length."""
GONE = 410


class WatchExpired(Exception):
    """The API server has no events since the given version any more: list again."""


def changes(
    api: KubernetesApi,
    namespaces: Collection[str],
    cache: ObservationCache,
    stop: threading.Event,
    changed: ChangedJobs,
) -> Iterator[Collection[str]]:
    """IDs of changed jobs of these namespaces, as `Cluster.watch` yields them; `changed` has those that were not yielded yet.

    Raises ClusterUnavailable.
    """
    over = threading.Event()
    listeners = [_Listener(api, namespace, changed, cache, over) for namespace in namespaces]
    for listener in listeners:
        listener.start()
    quiet = 0.0
    try:
        while not stop.is_set():
            job_ids = changed.take(STOP_POLL_SECONDS)
            quiet = 0.0 if job_ids else quiet + STOP_POLL_SECONDS
            if job_ids or quiet >= IDLE_SECONDS:
                quiet = 0.0
                yield job_ids
    finally:
        over.set()
        for listener in listeners:
            listener.cut()


class ChangedJobs:
    """IDs of jobs that have changed and were not yielded yet, each once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: dict[str, float] = {}
        self._error: ClusterUnavailable | None = None

    def add(self, job_id: str) -> None:
        with self._changed:
            self._jobs.setdefault(job_id, time.monotonic())
            self._changed.notify()

    def fail(self, error: ClusterUnavailable) -> None:
        with self._changed:
            self._error = error
            self._changed.notify()

    def oldest_seconds(self) -> float:
        """For how long the first of them has waited; 0 without one."""
        with self._changed:
            first = next(iter(self._jobs.values()), None)
            return 0.0 if first is None else time.monotonic() - first

    def take(self, seconds: float) -> tuple[str, ...]:
        """At most AT_ONCE changed jobs, those that have waited longest first; none when there are none for so many seconds.

        Raises the error with which a listener failed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._error, seconds)
            if self._error is not None:
                raise self._error
            job_ids = tuple(islice(self._jobs, AT_ONCE))
            for job_id in job_ids:
                del self._jobs[job_id]
            return job_ids


class _Listener(threading.Thread):
    """Watches one namespace in a thread; records changed jobs, and the error with which it stopped."""

    def __init__(
        self, api: KubernetesApi, namespace: str, changed: ChangedJobs, cache: ObservationCache, over: threading.Event
    ) -> None:
        super().__init__(daemon=True, name=f"watch {namespace}")
        self._api = api
        self._namespace = namespace
        self._base = f"/api/v1/namespaces/{namespace}"
        self._changed_jobs = changed
        self._cache = cache
        self._over = over
        self._response: urllib3.BaseHTTPResponse | None = None

    def run(self) -> None:
        try:
            while not self._over.is_set():
                with refusals("watching pods"):
                    self._listen()
        except Exception as error:  # noqa: BLE001 - the thread that takes the changes raises it again
            self._changed_jobs.fail(ClusterUnavailable(f"watching the cluster failed: {error}"))

    def cut(self) -> None:
        """Shut down the connection that is being read, if there is one."""
        response = self._response
        connection = getattr(response, "connection", None)
        if connection is not None and connection.sock is not None:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def _listen(self) -> None:
        """List pods and jobs, then watch the pods until the version has expired."""
        try:
            totals().count(Metric.WATCH_LISTS, (self._namespace,))
            pods = self._api.pages(f"{self._base}/pods", JOB, PODS_AT_ONCE)
            version, first = next(pods)
            lost = self._cache.reset(self._namespace, chain(first, chain.from_iterable(items for _, items in pods)))
            for control in self._api.items(f"{self._base}/configmaps", f"{JOB},!{STOPPED}", accept=METADATA_LIST):
                self._cache.note_control(control)
                self._changed_jobs.add(control["metadata"]["labels"][JOB])
            for job_id in lost:
                self._changed_jobs.add(job_id)
            while not self._over.is_set():
                began = time.monotonic()
                version = self._watch(version)
                if time.monotonic() - began < SHORT_SECONDS:
                    self._over.wait(SHORT_SECONDS)
        except WatchExpired:
            return
        except ApiError as error:
            # The pages of a list expire too, when they are not read within minutes.
            if error.status != GONE:
                raise

    def _watch(self, version: str) -> str:
        """Watch once; the version up to which everything was seen. Raises WatchExpired."""
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
                # `cut` looks for the response after `over` was set: so either it finds the response, or this loop finds `over`.
                for line in _lines(response) if not self._over.is_set() else ():
                    version = self._apply(json.loads(line))
                    if self._over.is_set():
                        break
        except ApiError as error:
            if error.status == GONE:
                raise WatchExpired from error
            raise
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            # Cut off, also in the middle of a line, or silent: watch again from what was seen last.
            return version
        finally:
            self._response = None
        return version

    def _apply(self, event: Any) -> str:
        found = event["object"]
        if event["type"] == "ERROR":
            if found.get("code") == GONE:
                raise WatchExpired
            raise ApiError(int(found.get("code") or 500), str(found.get("message")))
        if event["type"] != "BOOKMARK" and self._cache.apply(event["type"], found):
            self._changed_jobs.add(found["metadata"]["labels"][JOB])
        return str(found["metadata"]["resourceVersion"])


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for block in response.stream(amt=None, decode_content=False):
        *lines, rest = (rest + block).split(b"\n")
        yield from (line for line in lines if line)


Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _CachedPod:
    """The judgement on a pod. It is `plain` when it is complete and nothing has to be done for the pod."""

    attempt: int
    owner: str
    judgement: Judgement
    plain: bool


@dataclass(slots=True)
class _CachedJob:
    """A job that has pods. `owner` is the UID of the control ConfigMap of its newest attempt, as far as is known; `ask` says
    that the cluster has to be asked.
    """

    namespace: str
    attempt: int = -1
    owner: str = ""
    pods: dict[str, _CachedPod] = field(default_factory=dict)
    ask: bool = False


class ObservationCache:
    """The judgements on all pods that the watch has seen, by job. The pods are not kept: there may be many.

    Safe for any number of threads.
    """

    def __init__(self, limits: WaitLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._jobs: dict[str, _CachedJob] = {}

    def note_control(self, control: Json) -> None:
        """Note a control ConfigMap: the pods that it owns are those that count for its job."""
        metadata = control["metadata"]
        number = int(metadata["labels"][ATTEMPT])
        with self._lock:
            job = self._jobs.get(metadata["labels"][JOB])
            if job is not None and number >= job.attempt:
                job.attempt, job.owner = number, metadata["uid"]

    def reset(self, namespace: str, pods: Iterable[Json]) -> list[str]:
        """Replace all pods of a namespace by those listed; the jobs of which a pod that had not ended is missing now."""
        with self._lock:
            before = {job_id: job for job_id, job in self._jobs.items() if job.namespace == namespace}
            for job_id in before:
                del self._jobs[job_id]
        for pod in pods:
            self.apply("ADDED", pod)
        with self._lock:
            lost = [job_id for job_id, job in before.items() if self._lost(job_id, job)]
            for job_id in self._jobs.keys() & set(lost):
                self._jobs[job_id].ask = True
        return lost

    def apply(self, kind: str, pod: Json) -> bool:
        """Apply an event of the watch; whether it changes anything. `kind` is ADDED, MODIFIED or DELETED."""
        metadata = pod["metadata"]
        job_id, name = metadata["labels"][JOB], metadata["name"]
        if kind == "DELETED":
            return self._drop(job_id, name)
        seen = _judge_pod(pod, self._limits)
        with self._lock:
            job = self._jobs.setdefault(job_id, _CachedJob(metadata["namespace"]))
            before = job.pods.get(name)
            if seen is None:
                job.ask = True
                return True
            job.pods[name] = seen
            job.ask |= not seen.plain
            return before != seen or not seen.plain

    def observation(self, job_id: str) -> Observation | None:
        """The reports of a job's replicas that have pods; None when the cluster has to be asked."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or not job.owner or job.ask:
                if job is not None:
                    job.ask = False
                return None
            pods = [pod for pod in job.pods.values() if pod.owner == job.owner]
            attempt, namespace, owner = job.attempt, job.namespace, job.owner
            if not pods or any(pod.attempt > attempt for pod in job.pods.values()):
                return None
        plain = [pod.judgement for pod in pods if pod.plain]
        if len(plain) < len(pods) and any(one.report.state.ended for one in plain):
            # The counts of outcomes are known only of all pods together.
            return None
        latest: dict[tuple[str, int], ReplicaReport] = {}
        for report in sorted((one.report for one in plain), key=lambda one: one.attempt):
            latest[report.role, report.index] = report
        platform: Json = {}
        if len(plain) == len(pods):
            platform = platform_of(job_id, attempt, namespace, owner, count_results(plain))
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

    def _lost(self, job_id: str, before: _CachedJob) -> bool:
        here = self._jobs[job_id].pods if job_id in self._jobs else {}
        return any(name not in here for name, pod in before.pods.items() if not pod.judgement.report.state.ended)


def _judge_pod(pod: Json, limits: WaitLimits) -> _CachedPod | None:
    """The judgement on a pod; None when it cannot be one of ours."""
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
    return _CachedPod(attempt, intern(owner["uid"]), judgement, plain)
