"""The results of pods: outputs from termination messages, metrics from the logs of collectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pipeline_core.clusters.base import ClusterUnavailable, ReplicaKey, ReplicaResult, StillEnding
from pipeline_core.clusters.kubernetes.api import KubernetesApi
from pipeline_core.clusters.kubernetes.archiving import waited
from pipeline_core.clusters.kubernetes.attempt import KubernetesAttempt
from pipeline_core.clusters.kubernetes.collector import COLLECTOR, leaves_output, printed_metrics
from pipeline_core.clusters.kubernetes.pod_rules import WaitLimits, judge
from pipeline_core.clusters.kubernetes.pod_view import PodView
from pipeline_core.clusters.kubernetes.podlogs import container_log
from pipeline_core.common.clock import now
from pipeline_core.taskset.results import MAX_OUTPUT, METRICS_FILE, OUTPUT_FILE

MESSAGES_BYTES = 12 * 1024
"""Bytes of all termination messages of a pod; each container has an equal part, and no more than MAX_OUTPUT.
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/"""

NO_COLLECTOR = f"{METRICS_FILE} is not collected on Kubernetes, as PIPELINE_COLLECTOR_IMAGE is not set"
NOT_HANDED_OVER = f"{METRICS_FILE} was not handed over: its collector was ended before it could"

_UNREADABLE = "Error on reading termination log"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

Found = tuple[bytes | None, str]


def read(
    api: KubernetesApi, attempt: KubernetesAttempt, limits: WaitLimits, wait_seconds: float
) -> Iterator[ReplicaResult]:
    """The results of the ended replicas of a job attempt; none when its TaskSet does not ask for them.

    A collector's log that cannot be read is waited for as long as the logs of the user. Raises ClusterUnavailable.
    """
    if not attempt.collects:
        return
    at = now()
    pods = attempt.pods()
    latest = _latest([*pods, *attempt.ledger.launched])
    for key, pod in sorted(pods.items()):
        if key in latest and judge(pod, at, limits).report.state.ended:
            output, output_problem = output_of(pod, at)
            metrics, metrics_problem = _metrics(api, attempt, PodView(pod, at), wait_seconds)
            found = ReplicaResult(key.role, key.index, key.attempt, output, metrics, output_problem, metrics_problem)
            if not found.empty:
                yield found


def output_of(pod: Mapping[str, Any], at: datetime) -> Found:
    """The first output of a container that exited with 0, or what is wrong with it.

    Others are not read, since the message of a container that failed may be the end of its log. A node cuts a message that is
    too long and does not say so: hence one of the full length may be a part, and is refused.
    """
    view = PodView(pod, at)
    kinds = ("initContainers", "containers", "ephemeralContainers")
    limit = min(MAX_OUTPUT, MESSAGES_BYTES // sum(len(view.spec.get(kind) or []) for kind in kinds))
    for container in view.mains:
        message = str(container.terminated.get("message") or "")
        if not message or container.terminated.get("exitCode") != 0 or not leaves_output(pod, container.name):
            continue
        if message.startswith(_UNREADABLE):
            return None, f"{OUTPUT_FILE} could not be read on its node"
        if _REPLACEMENT in message:
            return None, f"{OUTPUT_FILE} is not UTF-8"
        if len(message.encode()) >= limit:
            return None, f"{OUTPUT_FILE} has {limit} bytes or more; from this pod, less than that can be handed on"
        return message.encode(), ""
    return None, ""


def _metrics(api: KubernetesApi, attempt: KubernetesAttempt, view: PodView, wait_seconds: float) -> Found:
    if all(one.name != COLLECTOR for one in view.containers):
        return None, NO_COLLECTOR
    # Its log says whether it is complete; kubelets before 1.22 may never report that the collector has ended.
    try:
        lines = container_log(api, attempt.namespace, str(view.metadata["name"]), COLLECTOR)
        found = printed_metrics(lines)
    except ClusterUnavailable as error:
        if waited(view.now, view.finished, attempt.stopped_at) > wait_seconds:
            return None, f"{METRICS_FILE} cannot be read from its node: {error.message}"
        raise
    if found is None and not view.settled:
        raise StillEnding(f"{METRICS_FILE} of {view.metadata['name']} is still being handed over")
    return (None, NOT_HANDED_OVER) if found is None else (found or None, "")


def _latest(keys: Iterable[ReplicaKey]) -> frozenset[ReplicaKey]:
    """The latest attempt of each replica."""
    return frozenset({(key.role, key.index): key for key in sorted(keys)}.values())
