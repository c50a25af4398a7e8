"""The example binder for Volcano, with a real API server that knows PodGroups, and the rights of its own manifest."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import kubernetes.client
import kubernetes.config
import pytest
import yaml
from flask.testing import FlaskClient

from pipeline_core.clusters.base import LaunchRequest
from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi
from pipeline_core.clusters.kubernetes.objects import control_configmap
from pipeline_core.common.clock import now
from pipeline_core.taskset.additive import binding
from tests.builders import role, taskset_of
from tests.waiting import wait_for

VOLCANO = Path(__file__).parents[2] / "examples" / "volcano"
GROUP = "/apis/scheduling.volcano.sh/v1beta1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "minMember": {"type": "integer", "format": "int32", "minimum": 1},
                                    "queue": {"type": "string"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


def load_binder() -> Any:
    spec = importlib.util.spec_from_file_location("volcano_binder", VOLCANO / "binder.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


binder = load_binder()


@pytest.fixture(scope="module")
def pod_groups_are_known(api: KubernetesApi) -> None:
    try:
        api.request("POST", DEFINITIONS, body=DEFINITION)
    except ApiError as error:
        if error.status != 409:
            raise
    wait_for(lambda: _served(api))


def _served(api: KubernetesApi) -> bool:
    try:
        return bool(api.request("GET", f"{GROUP}/namespaces/default/podgroups"))
    except ApiError:
        return False


@pytest.fixture
def groups(api: KubernetesApi, kubeconfig: str, namespace: str, pod_groups_are_known: None) -> Iterator[Any]:
    """The binder's PodGroups, as an account that has the rights of the manifest in the test's namespace and no others."""
    role, binding_ = yaml.safe_load_all((VOLCANO / "jobs" / "rbac.yaml").read_text())
    user = f"binder-of-{namespace}"
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    api.request("POST", f"{RBAC}/{namespace}/roles", body=role)
    api.request("POST", f"{RBAC}/{namespace}/rolebindings", body=binding_ | {"subjects": [subject]})
    client = kubernetes.config.new_client_from_config(kubeconfig, persist_config=False)
    client.set_default_header("Impersonate-User", user)
    yield binder.PodGroups(kubernetes.client.CustomObjectsApi(client))
    client.close()


@pytest.fixture
def plugin(groups: Any) -> FlaskClient:
    client: FlaskClient = binder.create_app(groups).test_client()
    return client


def packet(namespace: str, job_id: str = "j01", **header: Any) -> dict[str, Any]:
    roles = [role("ps", annotations={"a": "b"}), role("worker", replicas=3)]
    taskset = taskset_of(*roles, metadata={"name": job_id, "namespace": namespace})
    return {"factors": {}, "header": {"jobID": job_id, "userID": "ada", **header}, "job": taskset}


def event(namespace: str, state: str, job_id: str = "j01") -> dict[str, Any]:
    return {"id": job_id, "namespace": namespace, "current_state": state}


def pod_groups(api: KubernetesApi, namespace: str) -> dict[str, Any]:
    items = api.request("GET", f"{GROUP}/namespaces/{namespace}/podgroups")["items"]
    return {item["metadata"]["name"]: item for item in items}


def test_a_job_that_is_asked_about_twice_has_one_pod_group(
    api: KubernetesApi, plugin: FlaskClient, namespace: str
) -> None:
    asked = packet(namespace, queue="vision")
    first, second = plugin.post("/bind", json=asked), plugin.post("/bind", json=asked)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json == second.json
    binding(asked["job"], first.json)
    for bound in first.json["spec"]["roles"]:
        assert bound["template"]["spec"]["schedulerName"] == "volcano"
        assert bound["template"]["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "j01"
    assert first.json["spec"]["roles"][0]["template"]["metadata"]["annotations"]["a"] == "b"
    (group,) = pod_groups(api, namespace).values()
    assert group["metadata"]["name"] == "j01"
    assert group["spec"] == {"minMember": 4, "queue": "vision"}


def test_without_a_queue_in_the_header_it_is_volcano_s_default(
    api: KubernetesApi, plugin: FlaskClient, namespace: str
) -> None:
    plugin.post("/bind", json=packet(namespace))
    assert pod_groups(api, namespace)["j01"]["spec"]["queue"] == "default"


@pytest.mark.parametrize("state", ["succeeded", "failed", "stopped"])
def test_the_pod_group_goes_with_the_end_of_the_job(
    api: KubernetesApi, plugin: FlaskClient, namespace: str, state: str
) -> None:
    for job_id in ("j01", "j02"):
        plugin.post("/bind", json=packet(namespace, job_id))
    plugin.post("/hook", json=event(namespace, "running"))
    assert pod_groups(api, namespace).keys() == {"j01", "j02"}
    for _ in range(2):
        assert plugin.post("/hook", json=event(namespace, state)).text == "OK"
    assert pod_groups(api, namespace).keys() == {"j02"}


def test_a_job_that_was_stopped_while_it_was_bound_leaves_no_pod_group(
    api: KubernetesApi, plugin: FlaskClient, namespace: str
) -> None:
    plugin.post("/hook", json=event(namespace, "stopped"))
    plugin.post("/bind", json=packet(namespace))
    assert pod_groups(api, namespace) == {}


def test_a_pod_group_of_somebody_else_is_neither_used_nor_removed(
    api: KubernetesApi, plugin: FlaskClient, namespace: str
) -> None:
    other = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "j01"}}
    api.request("POST", f"{GROUP}/namespaces/{namespace}/podgroups", body=other)
    answer = plugin.post("/bind", json=packet(namespace))
    assert answer.status_code == 422
    assert "not of this job" in answer.json["error"]
    assert plugin.post("/hook", json=event(namespace, "failed")).text == "OK"
    assert pod_groups(api, namespace).keys() == {"j01"}


def test_a_queue_that_is_no_name_is_refused(plugin: FlaskClient, namespace: str) -> None:
    answer = plugin.post("/bind", json=packet(namespace, queue=7))
    assert answer.status_code == 422
    assert "queue" in answer.json["error"]


def test_missing_rights_make_the_plugin_unavailable(plugin: FlaskClient) -> None:
    assert plugin.post("/bind", json=packet("default")).status_code == 503
    assert plugin.post("/hook", json=event("default", "failed")).status_code == 503


def test_a_pod_group_that_nobody_deleted_goes_when_it_is_old_and_its_job_is_unknown(
    api: KubernetesApi, plugin: FlaskClient, groups: Any, namespace: str
) -> None:
    for job_id in ("j01", "j02"):
        plugin.post("/bind", json=packet(namespace, job_id))
    control = control_configmap(LaunchRequest("j02", namespace, "ada", {}))
    api.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body=control)
    groups.remove_abandoned(namespace, now())
    assert pod_groups(api, namespace).keys() == {"j01", "j02"}
    groups.remove_abandoned(namespace, now() + binder.ABANDONED_AFTER + timedelta(seconds=5))
    assert pod_groups(api, namespace).keys() == {"j02"}
