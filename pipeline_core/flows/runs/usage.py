"""What the running tasks of a run use at present, asked of the cluster: it is recorded nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.factory import cluster
from pipeline_core.flows.states import TaskState

MOST = 20
"""Running tasks of which the cluster is asked, each by a call of its own."""


def with_usage(run: Mapping[str, Any]) -> dict[str, Any]:
    """The detail of a run, each running task with the sum of what its replicas use, as far as the cluster tells."""
    running = [task["jobID"] for task in run["tasks"] if task["state"] == TaskState.RUNNING and task["jobID"]]
    used = {job_id: _of_job(job_id) for job_id in running[:MOST]}
    return {**run, "tasks": [{**task, "usage": used.get(task["jobID"])} for task in run["tasks"]]}


def _of_job(job_id: str) -> dict[str, Any] | None:
    try:
        found = cluster().observe(job_id, usage=True)
    except ClusterUnavailable:
        return None
    known = [replica.usage for replica in found.replicas if replica.usage] if found else []
    if not known:
        return None
    return {
        "cpuCores": round(sum(used.cpu_cores for used in known), 3),
        "memoryBytes": sum(used.memory_bytes for used in known),
    }
