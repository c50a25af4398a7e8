"""Pods of a job whose control ConfigMap somebody has deleted. The cluster deletes them in turn, with their grace time; as long
as they are there, they run, and their logs can be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from pipeline_core.clusters.base import Observation, ReplicaKey, ReplicaReport
from pipeline_core.clusters.kubernetes import objects
from pipeline_core.clusters.kubernetes.api import KubernetesApi
from pipeline_core.clusters.kubernetes.attempt import delete_pod
from pipeline_core.clusters.kubernetes.pod_rules import WaitLimits, judge
from pipeline_core.clusters.kubernetes.pod_view import EndingStep, PodView, next_step
from pipeline_core.common.clock import now

Json = objects.Json


def find(api: KubernetesApi, job_id: str, namespaces: Sequence[str]) -> list[Json]:
    """All pods of a job, whoever owns them."""
    return list(_pods(api, job_id, namespaces))


def _pods(api: KubernetesApi, job_id: str, namespaces: Sequence[str]) -> Iterator[Json]:
    for namespace in namespaces:
        for pod in api.items(f"/api/v1/namespaces/{namespace}/pods", f"{objects.JOB}={job_id}"):
            try:
                objects.key_of(pod)
            except (KeyError, ValueError):
                # A pod of somebody else that has our label.
                continue
            yield pod


def runs(pod: Json) -> bool:
    """Whether a container of the pod runs or may start."""
    view = PodView(pod, now())
    return not view.ended or view.sidecars_run


def attempt_of(pod: Json) -> int:
    """The number of the job attempt that a pod belongs to, by its name."""
    found = objects.replica_attempt_of_pod(pod["metadata"]["labels"][objects.JOB], pod["metadata"]["name"])
    assert found is not None, "the pod is one of the job's"
    return found[0]


def observe(pods: Collection[Json], job_id: str, limits: WaitLimits) -> Observation | None:
    """The replicas that still have a pod, in the last attempt that has any; None when there is none.

    Replicas without a pod are left out: what became of them is known when all pods are gone.
    """
    if not pods:
        return None
    at = now()
    number = max(map(attempt_of, pods))
    reports: dict[tuple[str, int], ReplicaReport] = {}
    for pod in sorted((pod for pod in pods if attempt_of(pod) == number), key=lambda pod: objects.key_of(pod).attempt):
        report = judge(pod, at, limits).report
        reports[report.role, report.index] = report
    return Observation(job_id, number, tuple(report for _, report in sorted(reports.items())))


def end(api: KubernetesApi, pods: Collection[Json]) -> bool:
    """Delete these pods, those that run with their grace time. Returns whether there was none."""
    at = now()
    for pod in pods:
        view = PodView(pod, at)
        if not view.deletion_asked:
            delete_pod(api, pod)
        elif next_step(view) is EndingStep.FORCE:
            delete_pod(api, pod, grace=0)
    return not pods


def blocking(pods: Collection[Json], number: int, keys: Collection[ReplicaKey]) -> dict[ReplicaKey, str]:
    """Which of these replica attempts of the job attempt `number` have to wait, each with the pod that it waits for: one of an
    earlier attempt of the same replica that still runs."""
    running = [(attempt_of(pod), objects.key_of(pod), str(pod["metadata"]["name"])) for pod in pods if runs(pod)]
    found = {}
    for key in keys:
        for of_attempt, other, name in running:
            same = (other.role, other.index) == (key.role, key.index)
            if same and (of_attempt, other.attempt) < (number, key.attempt):
                found[key] = name
    return found
