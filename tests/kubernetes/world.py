"""A whole installation on a real API server, and somebody who plays the nodes of its pods."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi
from tests.builders import container, role, taskset_of
from tests.chaos.world import supervised
from tests.installation import Installation, installed
from tests.kubernetes.kubelet import Kubelet, terminated
from tests.servers import fresh_database
from tests.waiting import wait_for

QUICK = {
    "PIPELINE_LEASE_SECONDS": "2",
    "PIPELINE_WAKE_AFTER_SECONDS": "2",
    "PIPELINE_RECONCILE_SECONDS": "3",
    "PIPELINE_STOP_GRACE_SECONDS": "1",
    # Whoever is killed so often that five deaths meet at one stage of one job is no poison.
    "PIPELINE_MAX_CLAIMS": "50",
}
WORKERS = ("stages1", "stages2", "hooks1", "housekeeping", "beat", "watcher")
POLL_SECONDS = 0.2


@contextmanager
def a_service(
    directory: Path,
    namespace: str,
    kubeconfig: str,
    postgres_url: str,
    migrated_database: str,
    redis_url: str,
    **variables: str,
) -> Iterator[Installation]:
    """The service, all of it, with the Kubernetes driver; what dies of it is started again."""
    cluster = {
        "PIPELINE_CLUSTER_DRIVER": "kubernetes",
        "PIPELINE_KUBECONFIG": kubeconfig,
        "PIPELINE_NAMESPACES": namespace,
    }
    directory.mkdir()
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(directory, database_url, redis_url, **{**QUICK, **cluster, **variables}) as service,
        supervised(service),
    ):
        service.start("api", *WORKERS)
        wait_for(lambda: _answers(service), "the API")
        yield service


def _answers(service: Installation) -> bool:
    with suppress(OSError):
        return service.ask("GET", "/readyz").status_code == 200
    return False


def taskset(*scripts: str, replicas: int = 1, image: str = "localhost/busybox:1") -> dict[str, Any]:
    """A TaskSet with a role `r0`, `r1`… for each of the scripts."""
    return taskset_of(
        *(
            role(f"r{number}", container(script, image=image, imagePullPolicy="IfNotPresent"), replicas=replicas)
            for number, script in enumerate(scripts)
        )
    )


class Nodes(threading.Thread):
    """Plays all nodes: runs each pod for a moment, and then lets it end as its script says: `exit N`, else with 0; one
    that says `sleep` runs until it is ended. `uids` are those of all pods that ever were, by name."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        super().__init__(daemon=True)
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._kubelet = Kubelet(api, namespace)
        self._over = threading.Event()
        self.uids: dict[str, set[str]] = defaultdict(set)
        self.frozen = False

    def run(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            with suppress(ClusterUnavailable):
                for pod in self._api.request("GET", self._path)["items"]:
                    self.uids[pod["metadata"]["name"]].add(pod["metadata"]["uid"])
                    if not self.frozen:
                        self._go_on(pod)

    def end(self) -> None:
        self._over.set()
        self.join()

    def _go_on(self, pod: dict[str, Any]) -> None:
        name, phase = pod["metadata"]["name"], pod["status"]["phase"]
        script = pod["spec"]["containers"][0]["command"][-1]
        with suppress(ApiError):
            # It may be gone by now.
            if phase in ("Succeeded", "Failed"):
                return
            if "pipeline/ending-for" in (pod["metadata"].get("annotations") or {}):
                self._kubelet.report(name, "Failed", {"main": terminated(143)}, reason="DeadlineExceeded")
            elif phase == "Pending":
                self._kubelet.run(name)
            elif script.startswith("exit"):
                self._kubelet.finish(name, int(script.split()[1]), message="last words")
            elif not script.startswith("sleep"):
                self._kubelet.finish(name)


@contextmanager
def playing(api: KubernetesApi, namespace: str) -> Iterator[Nodes]:
    """Nodes, until the block ends."""
    nodes = Nodes(api, namespace)
    nodes.start()
    try:
        yield nodes
    finally:
        nodes.end()


def wait_ended(service: Installation, job_ids: list[str]) -> dict[str, dict[str, Any]]:
    """All these jobs once they have ended and their pods are gone."""
    found: dict[str, dict[str, Any]] = {}

    def all_have() -> bool:
        for job_id in job_ids:
            if job_id not in found:
                with suppress(OSError):
                    job = service.job(job_id)
                    if job["finishedAt"] and job["cleanup"] in (None, "done"):
                        found[job_id] = job
        return len(found) == len(set(job_ids))

    wait_for(
        all_have,
        f"{len(job_ids)} jobs to end and to be cleaned up",
        progress=lambda: (len(found), [service.events(job_id) for job_id in job_ids]),
    )
    return found
