"""What the driver does with the objects of a real API server; the tests play scheduler and kubelet themselves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.clusters.base import (
    ClusterError,
    ClusterUnavailable,
    ForeignObject,
    LaunchRequest,
    LogQuery,
    ReplicaKey,
    ReplicaReport,
    StillEnding,
)
from pipeline_core.clusters.kubernetes.api import MERGE, KubernetesApi
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
from pipeline_core.clusters.kubernetes.pod_rules import WaitLimits
from pipeline_core.states import ReplicaState
from tests.builders import container, launch_request, role
from tests.integration.clusters.support import seen
from tests.kubernetes.conftest import make_driver
from tests.kubernetes.kubelet import Kubelet, running, stamp, terminated, waiting
from tests.waiting import wait_for

POD = "job-worker-0-0-0"


@pytest.fixture
def make(namespace: str) -> Any:
    """Makes launch requests in the test's namespace."""

    def make_request(*roles: dict[str, Any], replicas: int = 1, keys: Any = None, **fields: Any) -> LaunchRequest:
        made = launch_request("job", *(roles or (role("worker", container("true"), replicas=replicas),)), **fields)
        return LaunchRequest(made.job_id, namespace, made.user_id, made.taskset, made.attempt, keys)

    return make_request


def only(driver: KubernetesCluster) -> ReplicaReport:
    (replica,) = seen(driver, "job").replicas
    return replica


@contextmanager
def cut_after(api: KubernetesApi, monkeypatch: pytest.MonkeyPatch, writes: int) -> Iterator[None]:
    """Let so many writing requests through; the next is answered, and nobody lives to hear it."""
    real, left = api.request, [writes]
    lock = threading.Lock()

    def request(method: str, *args: Any, **fields: Any) -> Any:
        found = real(method, *args, **fields)
        with lock:
            left[0] -= method != "GET"
            if left[0] < 0:
                raise PowerCut
        return found

    with monkeypatch.context() as patch:
        patch.setattr(api, "request", request)
        yield


class PowerCut(BaseException):
    """Ends a launch as a kill would."""


def test_a_job_runs_to_its_end(driver: KubernetesCluster, kubelet: Kubelet, make: Any) -> None:
    assert [one.state for one in driver.launch(make()).replicas] == [ReplicaState.WAITING]
    kubelet.run(POD)
    assert only(driver).state is ReplicaState.RUNNING
    observed = driver.observe("job", usage=True)
    assert observed is not None
    assert observed.replicas[0].usage is None, "this cluster has no metrics"
    kubelet.finish(POD, 3, message="last words")
    replica = only(driver)
    assert (replica.state, replica.reason, replica.exit_code) == (ReplicaState.FAILED, "Error", 3)
    assert replica.diagnostics == "last words"
    assert seen(driver, "job").platform["unitResults"] == {"task_error": 1}
    wait_for(lambda: driver.delete("job"))
    assert kubelet.names() == []
    assert only(driver) == replica
    assert seen(driver, "job").cleared


@pytest.mark.parametrize("writes", range(6))
def test_a_launch_that_was_cut_off_can_be_repeated(
    driver: KubernetesCluster,
    kubelet: Kubelet,
    api: KubernetesApi,
    make: Any,
    monkeypatch: pytest.MonkeyPatch,
    writes: int,
) -> None:
    launched = make(replicas=3)
    with cut_after(api, monkeypatch, writes), pytest.raises(PowerCut):
        driver.launch(launched)
    assert len(driver.launch(launched).replicas) == 3
    uids = {kubelet.pod(name)["metadata"]["uid"] for name in kubelet.names()}
    driver.launch(launched)
    assert {kubelet.pod(name)["metadata"]["uid"] for name in kubelet.names()} == uids
    assert len(uids) == 3


def test_a_pod_that_somebody_deleted_has_failed_and_is_not_made_again(
    driver: KubernetesCluster, kubelet: Kubelet, make: Any
) -> None:
    driver.launch(make(replicas=2))
    kubelet.run(POD)
    kubelet.remove(POD)
    for replicas in (seen(driver, "job").replicas, driver.launch(make(replicas=2)).replicas):
        assert (replicas[0].state, replicas[0].reason) == (ReplicaState.FAILED, "PodDeleted")
        assert replicas[1].state is ReplicaState.WAITING
    assert kubelet.names() == ["job-worker-0-0-1"]


def test_a_job_whose_control_configmap_was_deleted_is_known_until_its_pods_are_gone(
    driver: KubernetesCluster, kubelet: Kubelet, api: KubernetesApi, make: Any
) -> None:
    launched = make()
    driver.launch(launched)
    kubelet.run(POD)
    api.request("DELETE", f"/api/v1/namespaces/{launched.namespace}/configmaps/c-job-0")
    assert only(driver).state is ReplicaState.RUNNING
    assert kubelet.pod(POD)["metadata"]["deletionTimestamp"], "it is ended"
    with pytest.raises(StillEnding):
        driver.launch(make(attempt=1))
    assert kubelet.names() == [POD]
    kubelet.remove(POD)
    assert driver.observe("job") is None
    driver.launch(make(attempt=1))
    assert kubelet.names() == ["job-worker-1-0-0"]


def test_a_control_configmap_that_is_deleted_during_an_observation_makes_it_repeat(
    driver: KubernetesCluster, kubelet: Kubelet, api: KubernetesApi, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = make(role("worker", container("true")))
    driver.launch(launched)
    kubelet.report(POD, "Pending", {"main": waiting("InvalidImageName")})
    real = api.request

    def request(method: str, path: str, *args: Any, **fields: Any) -> Any:
        if method == "PUT":
            real("DELETE", path)
        return real(method, path, *args, **fields)

    with monkeypatch.context() as patch:
        patch.setattr(api, "request", request)
        with pytest.raises(ClusterUnavailable):
            driver.observe("job")
    assert only(driver).state is ReplicaState.FAILED
    kubelet.remove(POD)
    assert driver.observe("job") is None


@pytest.mark.parametrize(
    ("kind", "name", "spec"),
    [
        ("configmaps", "c-job-0", {}),
        ("services", "job", {"spec": {"ports": [{"port": 80}]}}),
        ("pods", POD, {"spec": {"containers": [{"name": "c", "image": "i"}]}}),
    ],
)
def test_foreign_objects_are_not_changed(
    driver: KubernetesCluster, api: KubernetesApi, make: Any, kind: str, name: str, spec: Any
) -> None:
    launched = make()
    path = f"/api/v1/namespaces/{launched.namespace}/{kind}"
    before = api.request("POST", path, body={"metadata": {"name": name}, **spec})
    with pytest.raises(ForeignObject, match=name):
        driver.launch(launched)
    wait_for(lambda: driver.delete("job"))
    after = api.request("GET", f"{path}/{name}")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_a_pod_that_the_cluster_refuses_fails_the_launch(driver: KubernetesCluster, make: Any) -> None:
    with pytest.raises(ClusterError, match=r"resources.limits"):
        driver.launch(make(role("worker", container("true", resources={"limits": {"cpu": "-1"}}))))


def test_a_stop_asks_the_node_and_waits_for_it(driver: KubernetesCluster, kubelet: Kubelet, make: Any) -> None:
    driver.launch(make())
    kubelet.run(POD)
    assert driver.delete("job") is False
    pod = kubelet.pod(POD)
    assert pod["spec"]["activeDeadlineSeconds"] == 1
    assert pod["metadata"]["annotations"]["pipeline/ending-for"] == "Stopped"
    assert only(driver).state is ReplicaState.RUNNING
    kubelet.report(POD, "Failed", {"main": terminated(7)}, reason="DeadlineExceeded")
    wait_for(lambda: driver.delete("job"))
    assert (only(driver).state, only(driver).exit_code) == (ReplicaState.STOPPED, 7)


def test_a_pod_whose_node_is_lost_is_deleted_by_force(
    driver: KubernetesCluster, kubelet: Kubelet, api: KubernetesApi, make: Any
) -> None:
    launched = make()
    driver.launch(launched)
    kubelet.run(POD)
    driver.delete("job")
    long_ago = (datetime.now(UTC) - timedelta(seconds=100)).isoformat()
    change = {"metadata": {"annotations": {"pipeline/ending-since": long_ago}}}
    path = f"/api/v1/namespaces/{launched.namespace}/pods/{POD}"
    api.request("PATCH", path, body=change, content=MERGE)
    assert driver.delete("job") is False
    assert kubelet.pod(POD)["metadata"]["deletionTimestamp"]
    assert only(driver).state is ReplicaState.STOPPED


def test_a_later_attempt_waits_for_the_earlier_and_shares_its_address(
    driver: KubernetesCluster, kubelet: Kubelet, make: Any
) -> None:
    driver.launch(make())
    kubelet.run(POD)
    with pytest.raises(StillEnding):
        driver.launch(make(attempt=1))
    kubelet.finish(POD, 143)

    def launches() -> bool:
        try:
            return bool(driver.launch(make(attempt=1)))
        except StillEnding:
            return False

    wait_for(launches)
    assert kubelet.names() == ["job-worker-1-0-0"]
    assert (seen(driver, "job").attempt, driver.launch(make()).attempt) == (1, 1)


def test_a_stop_during_a_launch_is_seen_by_the_launch(
    driver: KubernetesCluster, kubelet: Kubelet, api: KubernetesApi, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cut_after(api, monkeypatch, 0), pytest.raises(PowerCut):
        driver.launch(make())
    wait_for(lambda: driver.delete("job"))
    assert driver.launch(make()).replicas[0].state is ReplicaState.STOPPED
    assert kubelet.names() == []


def test_an_image_that_cannot_be_pulled_fails_its_replica_finally(
    api: KubernetesApi, tmp_path: Path, namespace: str, kubelet: Kubelet, make: Any
) -> None:
    driver = make_driver(api, tmp_path, namespace, WaitLimits(timedelta(seconds=60), timedelta(days=1)))
    driver.launch(make())
    early = stamp(datetime.now(UTC) - timedelta(seconds=61))
    kubelet.report(POD, "Pending", {"main": waiting("ErrImagePull", "no such image")}, startTime=early)
    assert (only(driver).state, only(driver).reason) == (ReplicaState.FAILED, "ImagePullBackOff")
    assert kubelet.pod(POD)["metadata"]["annotations"]["pipeline/ending-for"] == "ImagePullBackOff"
    kubelet.run(POD)
    assert (only(driver).state, only(driver).diagnostics) == (ReplicaState.FAILED, "no such image")


def test_a_pod_that_no_node_takes_is_given_up_and_removed(
    api: KubernetesApi, tmp_path: Path, namespace: str, kubelet: Kubelet, make: Any
) -> None:
    driver = make_driver(api, tmp_path, namespace, WaitLimits(timedelta(seconds=60), timedelta(0)))
    driver.launch(make())
    wait_for(lambda: only(driver).state is ReplicaState.FAILED)
    assert only(driver).reason == "Unschedulable"
    assert kubelet.names() == []


def test_sidecars_are_ended_when_the_others_have(driver: KubernetesCluster, kubelet: Kubelet, make: Any) -> None:
    annotations = {"pipeline/sidecars": '["side"]'}
    driver.launch(make(role("worker", container("true"), container("true", "side"), annotations=annotations)))
    kubelet.report(POD, "Running", {"main": terminated(0), "side": running()})
    assert (only(driver).state, only(driver).reason) == (ReplicaState.RUNNING, "SidecarsEnding")
    assert kubelet.pod(POD)["spec"]["activeDeadlineSeconds"] == 1
    kubelet.report(POD, "Failed", {"main": terminated(0), "side": terminated(143)}, reason="DeadlineExceeded")
    assert only(driver).state is ReplicaState.SUCCEEDED


def test_the_deadline_of_a_taskset_counts_from_its_first_start(
    driver: KubernetesCluster, kubelet: Kubelet, make: Any
) -> None:
    driver.launch(make(replicas=2, activeDeadlineSeconds=30))
    began = stamp(datetime.now(UTC) - timedelta(seconds=31))
    kubelet.report(POD, "Running", {"main": {"running": {"startedAt": began}}})
    driver.observe("job")
    assert kubelet.pod(POD)["metadata"]["annotations"]["pipeline/ending-for"] == "DeadlineExceeded"
    waiting_one = seen(driver, "job").replicas[1]
    assert (waiting_one.state, waiting_one.reason) == (ReplicaState.FAILED, "DeadlineExceeded")


def test_some_replicas_are_stopped_alone(driver: KubernetesCluster, kubelet: Kubelet, make: Any) -> None:
    driver.launch(make(replicas=2))
    kubelet.run(POD)
    driver.delete("job", [ReplicaKey("worker", 1)])
    assert driver.delete("job", [ReplicaKey("worker", 1)]) is True
    states = [replica.state for replica in seen(driver, "job").replicas]
    assert states == [ReplicaState.RUNNING, ReplicaState.STOPPED]
    retry = ReplicaKey("worker", 1, 1)
    driver.delete("job", [retry])
    assert driver.launch(make(replicas=2, keys=(retry,))).replicas[1].state is ReplicaState.STOPPED
    assert kubelet.names() == [POD]


def test_only_deleted_jobs_are_pruned(driver: KubernetesCluster, make: Any) -> None:
    driver.launch(make())
    driver.prune(["job", "unknown", "../job"])
    assert driver.observe("job") is not None
    wait_for(lambda: driver.delete("job"))
    driver.prune(["job"])
    assert driver.observe("job") is None
    assert list(driver.logs("job", LogQuery(follow=True))) == []


def test_pods_that_are_kept_have_ended_and_their_logs_are_stored(
    driver: KubernetesCluster, kubelet: Kubelet, make: Any
) -> None:
    driver.launch(make(replicas=3))
    kubelet.finish(POD)
    kubelet.run("job-worker-0-0-1")
    assert driver.end("job") is False, "one has to be ended, and one was never started"
    kubelet.report("job-worker-0-0-1", "Failed", {"main": terminated(143)}, reason="DeadlineExceeded")
    wait_for(lambda: driver.end("job"))
    assert kubelet.names() == [POD, "job-worker-0-0-1"]
    before = seen(driver, "job")
    assert [one.state for one in before.replicas] == [
        ReplicaState.SUCCEEDED,
        ReplicaState.STOPPED,
        ReplicaState.STOPPED,
    ]
    assert not before.cleared
    wait_for(lambda: driver.delete("job"))
    assert kubelet.names() == []
    assert [replace(one, finished_at=None) for one in seen(driver, "job").replicas] == [
        replace(one, finished_at=None) for one in before.replicas
    ]


def test_a_pod_that_somebody_made_the_job_s_own_does_not_count(
    driver: KubernetesCluster, api: KubernetesApi, kubelet: Kubelet, make: Any
) -> None:
    launched = make()
    driver.launch(launched)
    base = f"/api/v1/namespaces/{launched.namespace}"
    pod = kubelet.pod(POD)
    metadata = {name: pod["metadata"][name] for name in ("labels", "ownerReferences")}
    spec = {"containers": [{"name": "main", "image": "i"}]}
    api.request("POST", f"{base}/pods", body={"metadata": {"name": "guest", **metadata}, "spec": spec})
    change = {"metadata": {"labels": {"pipeline/role": "other", "pipeline/replica-index": "x"}}}
    api.request("PATCH", f"{base}/pods/{POD}", body=change, content=MERGE)
    kubelet.run(POD)
    assert (only(driver).role, only(driver).state) == ("worker", ReplicaState.RUNNING)
