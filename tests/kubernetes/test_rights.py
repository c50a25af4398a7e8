"""The Role that ships with the project is enough, and nothing in it is too much."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes.config
import pytest
import yaml

from pipeline_core.clusters.base import ClusterUnavailable, LaunchRequest, LogQuery, ReplicaKey, StillEnding
from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi, Request
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
from pipeline_core.states import ReplicaState
from tests.builders import script_request
from tests.integration.clusters.support import seen
from tests.kubernetes.conftest import make_driver
from tests.kubernetes.kubelet import Kubelet
from tests.waiting import wait_for

MANIFEST = Path(__file__).parents[2] / "docker/kustomize/jobs/rbac.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
POD = "job-worker-0-0-0"


class Noting(KubernetesApi):
    """Remembers which rights its requests took."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.used: set[tuple[str, str]] = set()

    def _send(self, request: Request) -> Any:
        parts = request.path.split("/")[5:]
        resource = "/".join([parts[0], *parts[2:]])
        self.used.add((resource, _verb(request.method, named=len(parts) > 1, watching="watch" in request.query)))
        return super()._send(request)


def _verb(method: str, *, named: bool, watching: bool) -> str:
    if method == "GET":
        return "watch" if watching else "get" if named else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]


@pytest.fixture
def account(api: KubernetesApi, kubeconfig: str, namespace: str) -> Iterator[Noting]:
    """As a service account that has the rights of the manifest in the test's namespace, and no others."""
    role = next(one for one in yaml.safe_load_all(MANIFEST.read_text()) if one["kind"] == "Role")
    api.request("POST", f"{RBAC}/{namespace}/roles", body=role)
    user = f"service-of-{namespace}"
    binding = {
        "metadata": {"name": "pipeline-jobs"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pipeline-jobs"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    api.request("POST", f"{RBAC}/{namespace}/rolebindings", body=binding)
    client = kubernetes.config.new_client_from_config(kubeconfig, persist_config=False)
    client.set_default_header("Impersonate-User", user)
    yield Noting(client)
    client.close()


def test_the_rights_are_enough_for_all_that_the_driver_does_and_all_are_used(
    account: Noting, tmp_path: Path, namespace: str, kubelet: Kubelet
) -> None:
    driver = make_driver(account, tmp_path, namespace)
    made = script_request("job", "true", count=2)

    def request(attempt: int) -> LaunchRequest:
        return LaunchRequest("job", namespace, "u1", made.taskset, attempt)

    def launches(attempt: int) -> bool:
        try:
            return bool(driver.launch(request(attempt)))
        except StillEnding:
            return False

    driver.launch(request(0))
    driver.launch(request(0))
    stop = threading.Event()
    names = (name for some in driver.watch(stop) for name in some or [""])
    assert next(names) == "job"
    kubelet.run(POD)
    assert next(name for name in names if name) == "job"
    wait_for(lambda: ("pods", "watch") in account.used)
    stop.set()
    list(names)
    list(driver.logs("job", LogQuery()))
    driver.delete("job", [ReplicaKey("worker", 1)])
    with pytest.raises(StillEnding):
        driver.launch(request(1))
    kubelet.finish(POD, 1)
    wait_for(lambda: launches(1))
    wait_for(lambda: driver.delete("job"))
    driver.launch(request(1))
    assert all(one.state is ReplicaState.STOPPED for one in seen(driver, "job").replicas)
    _take_pod_of_another(driver, kubelet, namespace)
    driver.prune(["job", "other"])
    role = next(one for one in yaml.safe_load_all(MANIFEST.read_text()) if one["kind"] == "Role")
    granted = {(kind, verb) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}
    assert account.used == granted


def _take_pod_of_another(driver: KubernetesCluster, kubelet: Kubelet, namespace: str) -> None:
    """Look at a pod by its name, which takes an object in the way."""
    kubelet.create("other-worker-0-0-0")
    with pytest.raises(Exception, match="does not belong"):
        driver.launch(LaunchRequest("other", namespace, "u1", script_request("other", "true").taskset))
    wait_for(lambda: driver.delete("other"))


@pytest.mark.parametrize("path", ["secrets", "pods/x/exec", "persistentvolumeclaims", "events"])
def test_nothing_else_may_be_read(account: Noting, namespace: str, path: str) -> None:
    with pytest.raises(ApiError) as caught:
        account.request("GET", f"/api/v1/namespaces/{namespace}/{path}")
    assert caught.value.status == 403


def test_other_namespaces_are_closed(account: Noting) -> None:
    with pytest.raises(ApiError) as caught:
        account.request("GET", "/api/v1/namespaces/default/pods")
    assert caught.value.status == 403


def test_missing_rights_make_jobs_wait(account: Noting, tmp_path: Path) -> None:
    driver = make_driver(account, tmp_path, "default")
    with pytest.raises(ClusterUnavailable, match="lacks rights"):
        driver.launch(script_request("job", "true"))
    with pytest.raises(ClusterUnavailable, match="lacks rights"):
        next(driver.watch(threading.Event()))
