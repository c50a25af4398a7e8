from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline_core.database.models import Job, Replica
from pipeline_core.jobs import detail

START = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)
END = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
SIDECAR = '["proxy"]'

TASKSET: dict[str, Any] = {
    "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
    "kind": "TaskSet",
    "metadata": {"name": "j1", "namespace": "lab"},
    "spec": {
        "roles": [
            {
                "name": "ps",
                "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}},
            },
            {
                "name": "worker",
                "replicas": 2,
                "completionPolicy": {"minSucceeded": 1, "maxFailed": 2},
                "template": {
                    "metadata": {"annotations": {"pipeline/sidecars": SIDECAR}},
                    "spec": {
                        "nodeSelector": {"gpu-type": "V100"},
                        "volumes": [{"name": "data", "emptyDir": {}}],
                        "containers": [
                            {"name": "proxy", "image": "proxy"},
                            {
                                "name": "main",
                                "image": "trainer",
                                "command": ["python", "a.py"],
                                "resources": {"limits": {"cpu": "2"}},
                            },
                        ],
                    },
                },
            },
        ]
    },
}


def job(**values: Any) -> Job:
    columns = {
        "id": "j1",
        "user_id": "ada",
        "name": "mnist",
        "kind": "TFJob",
        "namespace": "lab",
        "state": "running",
        "stage": "cluster",
        "reason": "",
        "retried": 0,
        "exit_code": None,
        "exit_diagnostics": "",
        "suspended_by": "",
        "traceparent": "",
        "created_at": START,
    }
    return Job(**(columns | values))


def replica(role: str, index: int, state: str, **values: Any) -> Replica:
    texts = dict.fromkeys(("reason", "diagnostics", "container_id", "host_ip", "pod_name", "pod_uid", "pod_ip"), "")
    return Replica(
        **({"job_id": "j1", "role": role, "index": index, "state": state, "attempt": 0, "restarts": 0} | texts | values)
    )


def test_a_replica_shows_its_results() -> None:
    replicas = [replica("worker", 0, "succeeded"), replica("worker", 1, "succeeded")]
    left = {("worker", 0): {"output": "a"}, ("worker", 1): {"outputProblem": "too long"}}
    worker = detail.view(job(), TASKSET, {}, {}, replicas, left)["tasks"][1]
    assert [(one.get("output"), one.get("outputProblem")) for one in worker["replicas"]] == [
        ("a", None),
        (None, "too long"),
    ]


def test_a_job_that_belongs_to_a_trace_shows_its_id() -> None:
    context = f"00-{'a' * 32}-{'b' * 16}-01"
    assert detail.view(job(traceparent=context), TASKSET, {}, {}, [])["job"]["traceID"] == "a" * 32


def test_a_job_before_translation_has_no_tasks_and_no_platform() -> None:
    found = detail.view(job(state="waiting", stage="translate"), None, {}, None, [])
    assert found == {
        "version": "v1",
        "job": {
            "id": "j1",
            "name": "mnist",
            "type": "TFJob",
            "state": "waiting",
            "userID": "ada",
            "startAt": None,
            "finishedAt": None,
            "totalRetriedCount": 0,
            "exitCode": None,
            "exitDiagnostics": "",
            "stage": "translate",
            "reason": "",
            "createdAt": "2026-01-31T12:00:00.250000Z",
            "suspendedBy": None,
            "suspendedAt": None,
            "retryOf": None,
            "runID": None,
            "traceID": None,
            "cleanup": None,
        },
        "cluster": {"identity": "local"},
        "tasks": [],
        "platformSpecificInfo": None,
    }


def test_a_launched_job_shows_its_tasks_replicas_and_platform() -> None:
    replicas = [
        replica("ps", 0, "running", started_at=START, container_id="c0", host_ip="10.0.0.1"),
        replica("worker", 0, "failed", attempt=2, exit_code=137, diagnostics="killed", reason="OOMKilled",
                started_at=START, finished_at=END, pod_name="p", pod_uid="u", pod_ip="10.1.0.1", host_ip="10.0.0.2"),
    ]  # fmt: skip
    states = {"ps": "running", "worker": "running"}
    platform = {"platform": "k8s", "configMapUID": "cm-uid", "configMapName": "c-j1-0"}
    found = detail.view(job(started_at=START), TASKSET, states, platform, replicas)
    assert found["tasks"][0] == {
        "name": "ps",
        "image": "busybox",
        "state": "running",
        "command": [],
        "replicaAmount": 1,
        "maxFailedTaskCount": 1,
        "minSucceededTaskCount": 1,
        "resource": {"requests": {}, "limits": {}},
        "replicas": [
            {
                "index": 0,
                "state": "running",
                "retriedCount": 0,
                "restartCount": 0,
                "startAt": "2026-01-31T12:00:00.250000Z",
                "finishedAt": None,
                "containerID": "c0",
                "containerHostIP": "10.0.0.1",
                "exitCode": None,
                "exitDiagnostics": "",
            }
        ],
    }
    worker = found["tasks"][1]
    assert (worker["image"], worker["command"]) == ("trainer", ["python", "a.py"])
    assert worker["resource"] == {"requests": {}, "limits": {"cpu": "2"}}
    assert (worker["replicaAmount"], worker["maxFailedTaskCount"], worker["minSucceededTaskCount"]) == (2, 2, 1)
    assert (worker["replicas"][0]["retriedCount"], worker["replicas"][0]["exitCode"]) == (2, 137)
    info = found["platformSpecificInfo"]
    assert {name: value for name, value in info.items() if name != "taskRuntimeInfo"} == {
        "platform": "k8s",
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "namespace": "lab",
        "instanceUID": "",
        "configMapUID": "cm-uid",
        "configMapName": "c-j1-0",
    }
    assert info["taskRuntimeInfo"][1] == {
        "name": "worker",
        "nodeSelector": {"gpu-type": "V100"},
        "replicas": [
            {
                "index": 0,
                "podIP": "10.1.0.1",
                "podUID": "u",
                "podName": "p",
                "podHostIP": "10.0.0.2",
                "podReason": "OOMKilled",
            }
        ],
        "volumeMounts": [{"name": "data", "emptyDir": {}}],
    }


@pytest.mark.parametrize(
    ("state", "recorded", "shown"),
    [
        ("waiting", None, "waiting"),
        ("running", "running", "running"),
        ("succeeded", "succeeded", "succeeded"),
        ("stopped", None, "stopped"),
        ("stopped", "running", "stopped"),
        ("stopped", "failed", "failed"),
        ("failed", "waiting", "stopped"),
    ],
)
def test_a_task_has_the_recorded_state_and_ends_with_its_job(state: str, recorded: str | None, shown: str) -> None:
    states = {"ps": recorded} if recorded else {}
    assert detail.view(job(state=state), TASKSET, states, None, [])["tasks"][0]["state"] == shown


def test_the_exit_code_is_0_when_succeeded_and_as_recorded_otherwise() -> None:
    assert detail.view(job(state="succeeded"), None, {}, None, [])["job"]["exitCode"] == 0
    assert detail.view(job(state="failed", exit_code=137), None, {}, None, [])["job"]["exitCode"] == 137
    assert detail.view(job(state="stopped"), None, {}, None, [])["job"]["exitCode"] is None


def test_a_suspended_job_names_its_gate() -> None:
    shown = detail.view(job(state="suspended", suspended_by="AccessGate.a.b", suspended_at=END), None, {}, None, [])
    assert shown["job"]["suspendedBy"] == "AccessGate.a.b"
    assert shown["job"]["suspendedAt"] == "2026-01-31T12:30:00Z"
