"""Finds the attempts of a job in the cluster by name, so that it costs the same however many other jobs are there.

The control ConfigMap of a job's first attempt is kept as long as the job may have any, and says how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline_core.clusters.base import LaunchRequest
from pipeline_core.clusters.kubernetes import objects
from pipeline_core.clusters.kubernetes.api import MERGE, ApiError, KubernetesApi
from pipeline_core.common.clock import now

Json = objects.Json


def controls(api: KubernetesApi, job_id: str, namespaces: Sequence[str]) -> list[Json]:
    """The control ConfigMaps of a job by the number of the attempt."""
    first = _first(api, job_id, namespaces)
    if first is None:
        return []
    namespace, latest = first["metadata"]["namespace"], _latest(first)
    later = (control(api, namespace, job_id, number) for number in range(1, latest + 1))
    return [first, *(one for one in later if one is not None)]


def latest_control(api: KubernetesApi, job_id: str, namespaces: Sequence[str]) -> Json | None:
    """The control ConfigMap of a job's last attempt; None when it has none."""
    first = _first(api, job_id, namespaces)
    if first is None:
        return None
    numbers = range(_latest(first), 0, -1)
    later = (control(api, first["metadata"]["namespace"], job_id, number) for number in numbers)
    return next((one for one in later if one is not None), first)


def control(api: KubernetesApi, namespace: str, job_id: str, number: int) -> Json | None:
    """The control ConfigMap of this attempt; None when there is none, or one of that name that is not the job's."""
    name = objects.control_configmap_name(job_id, number)
    try:
        found = api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    labels = found["metadata"].get("labels") or {}
    return found if labels.get(objects.JOB) == job_id and objects.ATTEMPT in labels else None


def note_later_attempt(api: KubernetesApi, request: LaunchRequest) -> None:
    """Record at the first attempt that there is this later one. Somebody may have deleted the first: then make it anew, ended."""
    path = f"/api/v1/namespaces/{request.namespace}/configmaps"
    noted = {objects.LATEST: str(request.attempt)}
    try:
        name = objects.control_configmap_name(request.job_id, 0)
        api.request("PATCH", f"{path}/{name}", body={"metadata": {"annotations": noted}}, content=MERGE)
    except ApiError as error:
        if error.status != 404:
            raise
        at = now().isoformat()
        first = objects.control_configmap(replace(request, attempt=0))
        del first["data"]
        first["metadata"]["labels"][objects.STOPPED] = "true"
        first["metadata"]["annotations"] |= {objects.STOPPED_AT: at, objects.CLEARED: at, **noted}
        api.request("POST", path, body=first)


def _first(api: KubernetesApi, job_id: str, namespaces: Sequence[str]) -> Json | None:
    found: Iterator[Json | None] = (control(api, namespace, job_id, 0) for namespace in namespaces)
    return next((one for one in found if one is not None), None)


def _latest(first: Json) -> int:
    return int((first["metadata"].get("annotations") or {}).get(objects.LATEST, 0))
