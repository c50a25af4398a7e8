"""What pods use at present, from the resource metrics API, where the cluster has it installed.

https://kubernetes.io/docs/tasks/debug/debug-cluster/resource-metrics-pipeline/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from pipeline_core.clusters.base import ClusterAway, Usage
from pipeline_core.clusters.kubernetes.api import Api, ApiError
from pipeline_core.clusters.kubernetes.objects import JOB


def usage_of(api: Api, namespace: str, job_id: str) -> dict[str, Usage]:
    """The usage of a job's pods by their names; nothing when it is not to be had, as it is only good to know."""
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
    try:
        return {item["metadata"]["name"]: _sum(item["containers"]) for item in api.items(path, f"{JOB}={job_id}")}
    except (ApiError, ClusterAway):
        return {}


def _sum(containers: list[Mapping[str, Any]]) -> Usage:
    used = [container["usage"] for container in containers]
    return Usage(
        cpu_cores=float(sum(parse_quantity(one["cpu"]) for one in used)),
        memory_bytes=int(sum(parse_quantity(one["memory"]) for one in used)),
    )
