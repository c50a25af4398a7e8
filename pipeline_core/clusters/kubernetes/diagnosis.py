"""Why a container failed, by the end of its log where its termination message does not say."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pipeline_core.clusters.base import ClusterAway, ReplicaReport
from pipeline_core.clusters.kubernetes.api import Api
from pipeline_core.clusters.kubernetes.podlogs import container_log
from pipeline_core.clusters.kubernetes.podview import SETTLING_SECONDS, PodView
from pipeline_core.clusters.kubernetes.translation import DIAGNOSTICS_BYTES
from pipeline_core.common.clock import now

MESSAGE_LINES = 80
"""A termination message that falls back to the log has at most so many lines.
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/"""
TAIL_LINES = 500


def tells_little(report: ReplicaReport, pod: Mapping[str, Any]) -> bool:
    """Whether a failed container's message was cut by its lines, or is none where it would not be the end of the log."""
    if report.diagnostics:
        return report.diagnostics.count("\n") >= MESSAGE_LINES - 1
    failed = PodView(pod, now()).failed
    containers = (*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"])
    return failed is not None and not any(
        one["name"] == failed.name and one.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        for one in containers
    )


def end_of_log(api: Api, pod: Mapping[str, Any]) -> str:
    """The end of the first failed container's log; empty when there is none to be had. Waits until it is complete."""
    view = PodView(pod, now())
    failed = view.failed
    if failed is None:
        return ""
    if not view.settled:
        time.sleep(SETTLING_SECONDS)
    metadata = view.metadata
    try:
        lines = container_log(api, metadata["namespace"], metadata["name"], failed.name, tail=TAIL_LINES)
        text = b"\n".join(line.partition(b" ")[2] for line in lines)
    except ClusterAway:
        return ""
    return text[-DIAGNOSTICS_BYTES:].decode(errors="ignore")
