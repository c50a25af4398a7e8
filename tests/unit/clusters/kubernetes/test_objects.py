"""What a TaskSet becomes on Kubernetes."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.base import ClusterError, LaunchRequest, ReplicaKey
from pipeline_core.clusters.kubernetes import objects
from pipeline_core.clusters.kubernetes.objects import PodMaker
from pipeline_core.taskset.document import COLLECT, named
from pipeline_core.taskset.schema import TaskSetError, check
from tests.unit.taskset.documents import edited

WORKER = ReplicaKey("big-worker", 1, 4)
OWNER = {"metadata": {"name": "c-j1-2", "uid": "uid-of-c"}}


def taskset(**template: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "x", "env": [{"name": "A", "value": "1"}]}], **template}
    return {
        "metadata": {"name": "set"},
        "spec": {
            "roles": [
                {"name": "ps", "template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}},
                {"name": "big-worker", "replicas": 3, "template": {"spec": spec}},
            ]
        },
    }


def request(job_id: str = "j1", **template: Any) -> LaunchRequest:
    return LaunchRequest(job_id, "ns", "ann", taskset(**template), attempt=2)


def pod(key: ReplicaKey = WORKER, pull_secrets: tuple[str, ...] = (), **template: Any) -> Any:
    return PodMaker(request(**template), OWNER, pull_secrets=pull_secrets, grace_seconds=2.5).pod(key)


def test_a_pod_is_named_labelled_and_owned_by_what_it_belongs_to() -> None:
    metadata = pod()["metadata"]
    assert metadata["name"] == "j1-big-worker-2-4-1"
    assert metadata["labels"] == {
        "pipeline/job-id": "j1",
        "pipeline/role": "big-worker",
        "pipeline/replica-index": "1",
        "pipeline/attempt": "2",
        "pipeline/replica-attempt": "4",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ConfigMap", "c-j1-2", "uid-of-c")
    assert objects.key_of(pod()) == ReplicaKey("big-worker", 1, 4)


def test_labels_that_somebody_changed_do_not_make_another_replica_of_a_pod() -> None:
    changed = pod()
    changed["metadata"]["labels"].update({"pipeline/role": "other", "pipeline/replica-index": "many"})
    assert objects.key_of(changed) == ReplicaKey("big-worker", 1, 4)


def test_a_pod_with_another_name_pattern_is_foreign() -> None:
    with pytest.raises(ValueError, match="no pod of a job's"):
        objects.key_of({"metadata": {"name": "guest", "labels": {"pipeline/job-id": "j1"}}})


def test_the_taskset_variables_come_first_in_every_container() -> None:
    inits = [{"name": "init", "image": "x"}]
    spec = pod(initContainers=inits)["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        assert [(one["name"], one["value"]) for one in container["env"]][:6] == [
            ("TASKSET_NAMESPACE", "ns"),
            ("TASKSET_NAME", "set"),
            ("TASKROLE_NAME", "big-worker"),
            ("TASKROLE_REPLICA_INDEX", "1"),
            ("TASKROLE_HOSTS_PS", "ps-0.j1"),
            ("TASKROLE_HOSTS_BIG_WORKER", "big-worker-0.j1,big-worker-1.j1,big-worker-2.j1"),
        ]
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert spec["containers"][0]["env"][-1] == {"name": "A", "value": "1"}


def test_a_pod_has_its_stable_address_whatever_its_template_says() -> None:
    spec = pod(hostname="mine", subdomain="mine")["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("big-worker-1", "j1")


def test_defaults_are_for_pods_that_say_nothing_themselves() -> None:
    spec = pod(pull_secrets=("registry",))["spec"]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 3)
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    own = {
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 60,
        "imagePullSecrets": [{"name": "own"}],
    }
    spec = pod(pull_secrets=("registry",), **own)["spec"]
    assert {name: spec[name] for name in own} == own


def test_what_is_null_counts_as_left_out_and_whole_numbers_are_integers() -> None:
    nothing = {
        "restartPolicy": None,
        "terminationGracePeriodSeconds": None,
        "volumes": [{"name": "v", "emptyDir": None}],
    }
    spec = pod(**nothing, activeDeadlineSeconds=60.0)["spec"]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 3)
    assert spec["volumes"] == [{"name": "v"}]
    assert json.dumps(spec["activeDeadlineSeconds"]) == "60"


@given(edited(), st.booleans())
def test_what_passes_the_check_is_rendered(document: dict[str, Any], collected: bool) -> None:
    if collected:
        document = {**document, "metadata": {"annotations": {COLLECT: "true"}}}
    with suppress(TaskSetError):
        check(document)
        launched = LaunchRequest("j1", "ns", "ann", named(document, "j1", "ns"))
        maker = PodMaker(launched, OWNER, pull_secrets=("s",), grace_seconds=1, collector_image="busybox")
        for role in document["spec"]["roles"]:
            rendered = maker.pod(ReplicaKey(role["name"], 0))
            json.dumps(rendered, allow_nan=False)
            # What it adds makes no other kind of document of it.
            check({**document, "spec": {"roles": [{"name": "w", "template": {"spec": rendered["spec"]}}]}})


def test_the_template_is_left_as_it_was() -> None:
    launched = request()
    before = json.dumps(launched.taskset)
    PodMaker(launched, OWNER, pull_secrets=("s",), grace_seconds=1).pod(ReplicaKey("big-worker", 0))
    assert json.dumps(launched.taskset) == before


def test_a_list_of_hosts_that_no_program_could_be_started_with_is_left_out() -> None:
    many = taskset()
    many["spec"]["roles"][1]["replicas"] = 10_000
    made = PodMaker(LaunchRequest("j1", "ns", "ann", many), OWNER, pull_secrets=(), grace_seconds=1).pod(
        ReplicaKey("ps", 0)
    )
    names = [one["name"] for one in made["spec"]["containers"][0]["env"]]
    assert "TASKROLE_HOSTS_PS" in names
    assert "TASKROLE_HOSTS_BIG_WORKER" not in names


def test_a_role_that_is_not_there_is_refused() -> None:
    with pytest.raises(ClusterError, match="nobody"):
        pod(ReplicaKey("nobody", 0))


def test_the_control_configmap_holds_the_taskset_and_who_it_belongs_to() -> None:
    control = objects.control_configmap(request())
    assert control["metadata"]["name"] == "c-j1-2"
    assert control["metadata"]["annotations"]["pipeline/user"] == "ann"
    assert json.loads(control["data"]["taskset.json"]) == taskset()


@pytest.mark.parametrize("job_id", ["", "../x", "A", "1a", "a.b", "a" * 42, "-a", "a-"])
def test_a_job_that_no_service_can_be_named_after_is_refused(job_id: str) -> None:
    with pytest.raises(ClusterError, match="cannot be the name of a Service"):
        objects.control_configmap(request(job_id))


def test_the_service_finds_pods_that_are_not_ready() -> None:
    spec = objects.service(request(), OWNER)["spec"]
    assert spec == {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"pipeline/job-id": "j1"}}


@pytest.mark.parametrize("role", ["worker", "big-worker", "w-1-2", "1"])
def test_a_replica_attempt_is_read_from_the_name_of_its_pod(role: str) -> None:
    key = ReplicaKey(role, 7, 3)
    assert objects.replica_attempt_of_pod("j1", objects.pod_name("j1", 12, key)) == (12, key)
    assert objects.replica_attempt_of_pod("j2", objects.pod_name("j1", 12, key)) is None


@pytest.mark.parametrize("name", ["j1", "j1-", "j1-0-0-0", "j1--0-0-0", "j1-main-0-0", "j1-main-0-0-x", "j1-main-0--0"])
def test_other_names_are_of_no_pod_of_a_job(name: str) -> None:
    assert objects.replica_attempt_of_pod("j1", name) is None
