"""The driver against an API server in memory: launch, observe, delete, and the usage of pods."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
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
    ReplicaUsage,
    StillEnding,
)
from pipeline_core.clusters.kubernetes.api import ApiError
from pipeline_core.clusters.kubernetes.archive import Archive
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster, usage_of
from pipeline_core.clusters.kubernetes.pod_rules import WaitLimits
from pipeline_core.states import ReplicaState
from tests.unit.clusters.kubernetes.fake_api import FakeApi
from tests.unit.clusters.kubernetes.pods import at, ended, running


class Metrics:
    """Answers with these items, or with this error."""

    def __init__(self, *items: Any) -> None:
        self.given = items
        self.asked: list[tuple[str, str]] = []

    def items(self, path: str, selector: str) -> Any:
        self.asked.append((path, selector))
        for item in self.given:
            if isinstance(item, Exception):
                raise item
            yield item


def item(name: str, *used: tuple[str, str]) -> dict[str, Any]:
    containers = [
        {"name": f"c{number}", "usage": {"cpu": cpu, "memory": memory}} for number, (cpu, memory) in enumerate(used)
    ]
    return {"metadata": {"name": name}, "containers": containers}


def test_a_pod_uses_what_its_containers_use_together() -> None:
    api: Any = Metrics(item("a", ("250m", "10Mi"), ("1", "1024Ki")), item("b", ("12345678n", "4096")))
    assert usage_of(api, "ns", "j1") == {
        "a": ReplicaUsage(1.25, 11 * 1024 * 1024),
        "b": ReplicaUsage(pytest.approx(0.012345678), 4096),
    }
    assert api.asked == [("/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods", "pipeline/job-id=j1")]


@pytest.mark.parametrize(
    "error", [ApiError(404, "not found"), ApiError(403, "no"), ClusterUnavailable("no metrics server")]
)
def test_a_cluster_without_metrics_has_no_usage(error: Exception) -> None:
    api: Any = Metrics(error)
    assert usage_of(api, "ns", "j1") == {}


def test_usage_makes_no_two_reports_differ() -> None:
    report = ReplicaReport("worker", 0, ReplicaState.RUNNING)
    assert replace(report, usage=ReplicaUsage(1.0, 1)) == report


PODS = "/api/v1/namespaces/ns/pods"
POD = f"{PODS}/job-worker-0-0-0"
CONTROL = "/api/v1/namespaces/ns/configmaps/c-job-0"
SERVICE = "/api/v1/namespaces/ns/services/job"
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def driver(api: FakeApi, tmp_path: Path) -> KubernetesCluster:
    ages = WaitLimits(timedelta(days=10_000), timedelta(days=10_000))
    return KubernetesCluster("k", api, Archive(str(tmp_path)), namespaces=["ns"], limits=ages, grace_seconds=30)


def request(replicas: int = 1, attempt: int = 0, user: str = "u1", keys: Any = None) -> LaunchRequest:
    template = {"spec": {"containers": [{"name": "c0", "image": "i"}]}}
    taskset = {"spec": {"roles": [{"name": "worker", "replicas": replicas, "template": template}]}}
    return LaunchRequest("job", "ns", user, taskset, attempt, keys)


def run(api: FakeApi, path: str = POD) -> None:
    status = {"phase": "Running", "startTime": at(-60), "containerStatuses": [{"name": "c0", **running()}]}
    api.set_status(path, status)


def end(api: FakeApi, code: int, path: str = POD, **status: Any) -> None:
    phase = "Failed" if code else "Succeeded"
    statuses = [{"name": "c0", **ended(code, message="last words")}]
    api.set_status(path, {"phase": phase, "startTime": at(-60), "containerStatuses": statuses, **status})


def found(driver: KubernetesCluster) -> list[tuple[str, str]]:
    observation = driver.observe("job")
    assert observation is not None
    return [(report.state.value, report.reason) for report in observation.replicas]


def deleted(driver: KubernetesCluster, steps: int = 3) -> bool:
    return any(driver.delete("job") for _ in range(steps))


def test_a_repeated_launch_creates_nothing(driver: KubernetesCluster, api: FakeApi) -> None:
    first = driver.launch(request(replicas=3))
    objects = dict(api.objects)
    assert [report.state for report in first.replicas] == [ReplicaState.WAITING] * 3
    assert driver.launch(request(replicas=3)) == first
    assert api.objects == objects
    assert api.names("pods") == [f"job-worker-0-0-{index}" for index in range(3)]


@pytest.mark.parametrize("writes", range(6))
def test_a_launch_that_was_interrupted_is_completed_by_the_next(
    driver: KubernetesCluster, api: FakeApi, writes: int
) -> None:
    def broken(method: str, path: str) -> Exception | None:
        done = sum(made in WRITES for made, _ in api.requests[:-1])
        return ClusterUnavailable("cut off") if method in WRITES and done >= writes else None

    api.refusals.append(broken)
    with pytest.raises(ClusterUnavailable):
        driver.launch(request(replicas=4))
    api.refusals.clear()
    assert len(driver.launch(request(replicas=4)).replicas) == 4
    assert (len(api.names("pods")), api.names("services"), api.names("configmaps")) == (4, ["job"], ["c-job-0"])


@pytest.mark.parametrize("path", [CONTROL, SERVICE, POD])
def test_a_foreign_object_is_not_changed(driver: KubernetesCluster, api: FakeApi, path: str) -> None:
    directory, _, name = path.rpartition("/")
    theirs = api.request("POST", directory, body={"metadata": {"name": name}})
    with pytest.raises(ForeignObject, match=name):
        driver.launch(request())
    assert deleted(driver)
    assert api.objects[path] == theirs


def test_a_job_of_another_user_is_not_touched(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request())
    objects = dict(api.objects)
    with pytest.raises(ForeignObject):
        driver.launch(request(user="u2"))
    assert api.objects == objects


def test_a_pod_of_an_earlier_launch_of_the_job_is_waited_for(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request())
    control = api.objects.pop(CONTROL)
    with pytest.raises(StillEnding):
        driver.launch(request())
    assert api.objects[CONTROL]["metadata"]["uid"] != control["metadata"]["uid"]


@pytest.mark.parametrize(
    ("status", "error"),
    [(422, ClusterError), (403, ClusterError), (401, ClusterUnavailable), (409, ClusterUnavailable)],
)
def test_a_refusal_fails_the_launch_or_makes_it_wait(
    driver: KubernetesCluster, api: FakeApi, status: int, error: type[Exception]
) -> None:
    api.refusals.append(lambda method, path: ApiError(status, "no") if (method, path) == ("POST", PODS) else None)
    if status == 409:
        api.refusals.append(lambda method, path: ApiError(404, "no") if path == POD else None)
    with pytest.raises(error) as caught:
        driver.launch(request())
    assert isinstance(caught.value, ClusterUnavailable) is issubclass(error, ClusterUnavailable)


def test_a_pod_is_reported_as_its_status_says(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request())
    run(api)
    assert found(driver) == [("running", "")]
    end(api, 3)
    observation = driver.observe("job")
    assert observation is not None
    (report,) = observation.replicas
    assert (report.state, report.exit_code, observation.platform["unitResults"]) == ("failed", 3, {"task_error": 1})


def test_a_pod_that_somebody_deleted_has_failed_and_is_not_created_again(
    driver: KubernetesCluster, api: FakeApi
) -> None:
    driver.launch(request(replicas=2))
    del api.objects[POD]
    assert found(driver) == [("failed", "PodDeleted"), ("waiting", "Pending")]
    driver.launch(request(replicas=2))
    assert api.names("pods") == ["job-worker-0-0-1"]


def test_a_stop_sets_the_deadline_of_a_running_pod_and_waits_for_its_end(
    driver: KubernetesCluster, api: FakeApi
) -> None:
    driver.launch(request())
    run(api)
    assert driver.delete("job") is False
    assert api.objects[POD]["spec"]["activeDeadlineSeconds"] == 1
    assert found(driver) == [("running", "Stopped")]
    writes = [made for made in api.requests if made[0] in WRITES]
    assert driver.delete("job") is False
    assert [made for made in api.requests if made[0] in WRITES] == writes, "it is asked once"


def test_a_job_is_observed_from_the_ledger_after_its_pods_are_gone(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request(replicas=2))
    end(api, 3)
    before = found(driver)
    assert deleted(driver)
    assert (api.names("pods"), api.names("services"), api.names("configmaps")) == ([], [], ["c-job-0"])
    assert found(driver) == [before[0], ("stopped", "Stopped")]
    assert "taskset.json" not in api.objects[CONTROL].get("data", {})
    observation = driver.observe("job")
    assert observation is not None
    assert observation.cleared


def test_a_stopped_job_is_not_launched_again_until_it_is_pruned(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request())
    assert deleted(driver)
    assert [report.state for report in driver.launch(request()).replicas] == [ReplicaState.STOPPED]
    assert api.names("pods") == []
    driver.prune(["job"])
    assert api.objects == {}
    assert driver.observe("job") is None


def test_a_job_that_was_not_deleted_is_not_pruned(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request())
    objects = dict(api.objects)
    driver.prune(["job"])
    assert api.objects == objects


def test_one_replica_is_stopped_and_the_others_go_on(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request(replicas=2))
    stopped = [ReplicaKey("worker", 0)]
    assert any(driver.delete("job", stopped) for _ in range(3))
    assert found(driver) == [("stopped", "Stopped"), ("waiting", "Pending")]


def test_a_later_attempt_waits_for_the_end_of_the_earlier_one(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request())
    run(api)
    with pytest.raises(StillEnding):
        driver.launch(request(attempt=1))
    assert api.names("pods") == ["job-worker-0-0-0"]
    end(api, 143, reason="DeadlineExceeded")
    assert driver.launch(request(attempt=1)).attempt == 1
    assert api.names("pods") == ["job-worker-1-0-0"]
    assert driver.launch(request()).attempt == 1, "a request that comes late changes nothing"
    assert api.names("pods") == ["job-worker-1-0-0"]


def test_a_retry_of_a_replica_keeps_the_others(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request(replicas=2))
    end(api, 1)
    driver.launch(request(replicas=2, keys=(ReplicaKey("worker", 0, 1), ReplicaKey("worker", 1))))
    assert api.names("pods") == ["job-worker-0-0-0", "job-worker-0-0-1", "job-worker-0-1-0"]
    assert found(driver)[0] == ("waiting", "Pending"), "the latest attempt of the replica counts"


def orphan(api: FakeApi) -> None:
    """Somebody deletes the control ConfigMap; the pods are still there."""
    del api.objects[CONTROL]


def test_pods_without_their_control_configmap_are_ended_and_observed_until_they_are_gone(
    driver: KubernetesCluster, api: FakeApi
) -> None:
    driver.launch(request())
    run(api)
    orphan(api)
    assert found(driver) == [("running", "")]
    assert "deletionTimestamp" in api.objects[POD]["metadata"]
    end(api, 143, containerStatuses=[{"name": "c0", **ended(143, finished=10)}])
    assert found(driver) == [("failed", "PodDeleted")]
    assert api.names("pods") == []
    assert driver.observe("job") is None


def test_the_log_of_such_a_pod_is_kept(driver: KubernetesCluster, api: FakeApi, tmp_path: Path) -> None:
    driver.launch(request())
    run(api)
    api.logs["job-worker-0-0-0"] = "2026-03-01T11:59:58Z last words\n"
    orphan(api)
    driver.observe("job")
    assert [line.text for line in driver.logs("job", LogQuery()) if line] == ["last words"]


def test_a_job_without_its_control_configmap_is_deleted_when_its_pods_are_gone(
    driver: KubernetesCluster, api: FakeApi
) -> None:
    driver.launch(request())
    run(api)
    orphan(api)
    assert driver.delete("job") is False
    del api.objects[POD]
    assert driver.delete("job") is True


def test_no_later_attempt_begins_beside_a_pod_whose_control_configmap_is_gone(
    driver: KubernetesCluster, api: FakeApi
) -> None:
    driver.launch(request())
    run(api)
    orphan(api)
    with pytest.raises(StillEnding):
        driver.launch(request(attempt=1))
    assert "deletionTimestamp" in api.objects[POD]["metadata"]
    assert api.names("pods") == ["job-worker-0-0-0"]
    del api.objects[POD]
    driver.launch(request(attempt=1))
    assert api.names("pods") == ["job-worker-1-0-0"]


def test_no_retry_of_a_replica_begins_beside_the_attempt_before_it(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request(2))
    run(api)
    other = f"{PODS}/job-worker-0-0-1"
    end(api, 1, other)
    retries = (ReplicaKey("worker", 0, 1), ReplicaKey("worker", 1, 1))
    with pytest.raises(StillEnding, match="job-worker-0-0-0"):
        driver.launch(request(2, keys=retries))
    assert "job-worker-0-1-0" not in api.names("pods")
    assert "job-worker-0-1-1" in api.names("pods"), "the other replica's retry does not wait"
    end(api, 1)
    driver.launch(request(2, keys=retries))
    assert "job-worker-0-1-0" in api.names("pods")


def test_a_job_is_found_without_a_list_of_control_configmaps(driver: KubernetesCluster, api: FakeApi) -> None:
    driver.launch(request())
    run(api)
    driver.observe("job")
    list(driver.logs("job", LogQuery()))
    list(driver.results("job"))
    driver.delete("job")
    assert ("GET", CONTROL.rpartition("/")[0]) not in api.requests
