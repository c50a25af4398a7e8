"""What a watch has told of pods: enough to say how most jobs fare without asking the API server again."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from pipeline_core.clusters.base import Observation, ReplicaReport
from pipeline_core.clusters.kubernetes.objects import ATTEMPT, JOB, platform_of
from pipeline_core.clusters.kubernetes.podview import PodView
from pipeline_core.clusters.kubernetes.rules import Limits
from pipeline_core.clusters.kubernetes.translation import Judgement, count_results, judge_view
from pipeline_core.common.clock import now
from pipeline_core.states import ReplicaState

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


class Told:
    """The judgements on all pods that the watch has told of, by job. Pods themselves are not kept: there may be many.

    Safe for any number of threads.
    """

    def __init__(self, limits: Limits) -> None:
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


def _judged(pod: Json, limits: Limits) -> _Pod | None:
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
