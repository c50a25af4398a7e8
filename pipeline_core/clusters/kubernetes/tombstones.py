"""Control ConfigMaps of jobs that have been cleaned up.

A worker that was held up may launch a job after its end: what it finds then says that the job was stopped. So they are kept for
longer than any launch takes, and removed after that.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import structlog

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.kubernetes import objects
from pipeline_core.clusters.kubernetes.api import METADATA_LIST, ApiError, KubernetesApi, refusals
from pipeline_core.clusters.kubernetes.pod_view import moment
from pipeline_core.common.clock import now

log = structlog.get_logger(__name__)

KEPT = timedelta(minutes=15)
"""Longer than a launch takes, also one of many replicas whose worker was held up."""
ROUND_SECONDS = 60.0

Json = objects.Json


def remove_old(api: KubernetesApi, namespace: str, at: datetime) -> int:
    """Delete the control ConfigMaps of all jobs of which nothing has been left for KEPT. Returns how many.

    Raises ClusterUnavailable.
    """
    with refusals("removing what ended jobs have left"):
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        by_job: dict[str, list[Json]] = defaultdict(list)
        for control in api.items(path, f"{objects.JOB},{objects.STOPPED}", accept=METADATA_LIST):
            by_job[control["metadata"]["labels"][objects.JOB]].append(control)
        removed = 0
        for controls in by_job.values():
            for name in removable(controls, at):
                removed += _delete(api, f"{path}/{name}")
        return removed


def removable(controls: Sequence[Json], at: datetime) -> Iterator[str]:
    """The names of the stopped control ConfigMaps of one job, the first attempt's last; none while the job may go on."""
    ordered = sorted(controls, key=_number, reverse=True)
    latest = max(int(_annotations(one).get(objects.LATEST, 0)) for one in controls)
    cleared = [_annotations(one).get(objects.CLEARED) for one in controls]
    if _number(ordered[0]) >= latest and all(stamp and moment(stamp) < at - KEPT for stamp in cleared):
        yield from (str(one["metadata"]["name"]) for one in ordered)


def start(api: KubernetesApi, namespaces: Sequence[str], over: threading.Event) -> None:
    """Remove old ones in a thread, until `over` is set."""

    def run() -> None:
        while not over.wait(ROUND_SECONDS):
            for namespace in namespaces:
                try:
                    remove_old(api, namespace, now())
                except ClusterUnavailable as error:
                    log.warning("control ConfigMaps not removed", namespace=namespace, error=error.message)

    threading.Thread(target=run, daemon=True, name="tombstones").start()


def _delete(api: KubernetesApi, path: str) -> bool:
    try:
        api.request("DELETE", path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def _number(control: Json) -> int:
    return int(control["metadata"]["labels"][objects.ATTEMPT])


def _annotations(control: Json) -> Json:
    return control["metadata"].get("annotations") or {}
