"""The whole service on a node that really runs pods: from a submission to its end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi
from tests.installation import Installation
from tests.kubernetes.apiserver import RunningServer, free_port
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.runnable import IMAGE
from tests.kubernetes.world import a_service, taskset, wait_ended
from tests.waiting import wait_for

GRACE_SECONDS = 6
PLUGINS = Path(__file__).parents[2] / "examples" / "plugins" / "server.py"


@pytest.fixture(scope="module")
def namespace(api: KubernetesApi) -> str:
    """Pods of this module's run in the one that surely has an account for them."""
    return "default"


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory,
    namespace: str,
    kubeconfig: str,
    postgres_url: str,
    migrated_database: str,
    redis_url: str,
) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("node") / "service"
    with a_service(directory, namespace, kubeconfig, postgres_url, migrated_database, redis_url) as made:
        yield made


@pytest.fixture
def translator(service: Installation) -> Iterator[None]:
    """The example's translator of TFJobs."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen([sys.executable, str(PLUGINS), "--port", str(port)], stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: _answers(url), "the translator")
        selector = {"conditions": [{"name": "tf", "key": "jobKind", "expect": "TFJob"}], "expression": "tf"}
        plugin = {"pluginType": "TemplateTranslator", "callAddress": f"{url}/translate/tfjob"}
        service.register("tfjob", plugin, jobSelector=selector)
        yield
        process.terminate()


def _answers(url: str) -> bool:
    with suppress(OSError):
        return requests.get(f"{url}/received", timeout=2).ok
    return False


def tfjob(**scripts: tuple[int, str]) -> dict[str, Any]:
    """A TFJob with so many replicas of each type, that run this."""
    specs = {
        kind: {
            "replicas": count,
            "restartPolicy": "Never",
            "template": {"spec": {"containers": [{"name": "tensorflow", "command": ["sh", "-c", script], **IMAGE}]}},
        }
        for kind, (count, script) in scripts.items()
    }
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {}, "spec": {"tfReplicaSpecs": specs}}


def log_of(service: Installation, job_id: str) -> list[str]:
    return service.ask("GET", f"/v1/job/logs/{job_id}").text.splitlines()


def pods_of(kubelet: Kubelet, job_id: str) -> list[str]:
    return [name for name in kubelet.names() if name.startswith(f"{job_id}-")]


def running_pods(kubelet: Kubelet, job_id: str) -> tuple[str, ...]:
    """The job's pods of which a container runs."""
    found = []
    for name in pods_of(kubelet, job_id):
        with suppress(ApiError):
            # It may be gone by now.
            statuses = kubelet.pod(name)["status"].get("containerStatuses") or []
            if any("running" in one["state"] for one in statuses):
                found.append(name)
    return tuple(found)


@pytest.mark.usefixtures("translator")
def test_a_tfjob_goes_from_its_submission_to_success(service: Installation, kubelet: Kubelet) -> None:
    step = 'echo "step of $TASKROLE_NAME $TASKROLE_REPLICA_INDEX"; echo "$TF_CONFIG" | grep -c cluster'
    job_id = service.submit(
        tfjob(PS=(1, f"{step}; while :; do sleep 0.1; done"), Worker=(2, f"{step}; sleep 6; echo trained"))
    )
    service.wait_state(job_id, "running")
    wait_for(lambda: sum("step of" in line for line in log_of(service, job_id)) == 3, "three first lines")
    assert service.job(job_id)["state"] == "running", "its log was read meanwhile"
    job = wait_ended(service, [job_id])[job_id]
    assert (job["state"], job["exitCode"]) == ("succeeded", 0)
    assert pods_of(kubelet, job_id) == []
    lines = log_of(service, job_id)
    assert sum("step of" in line for line in lines) == 3
    assert sum("trained" in line for line in lines) == 2, lines
    assert service.events(job_id) == ["waiting", "running", "succeeded"]


def test_a_job_that_fails_says_how(service: Installation) -> None:
    job_id = service.submit(taskset("echo one; echo last words; exit 3"))
    job = wait_ended(service, [job_id])[job_id]
    assert (job["state"], job["exitCode"]) == ("failed", 3)
    assert job["exitDiagnostics"].rstrip().endswith("last words")
    assert log_of(service, job_id)[-1].endswith("last words")


def test_a_job_that_takes_too_much_memory_says_so(service: Installation) -> None:
    greedy = taskset("exec tail /dev/zero")
    container = greedy["spec"]["roles"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "20Mi"}}
    job_id = service.submit(greedy)
    job = wait_ended(service, [job_id])[job_id]
    assert (job["state"], job["exitCode"]) == ("failed", 137)
    assert "OOMKilled" in job["reason"]


def test_nothing_is_left_of_a_job_that_was_stopped(service: Installation, kubelet: Kubelet) -> None:
    job_id = service.submit(taskset("echo began; while :; do sleep 0.1; done"))
    service.wait_state(job_id, "running")
    service.put(f"/v1/job/stop/{job_id}")
    assert wait_ended(service, [job_id])[job_id]["state"] == "stopped"
    assert pods_of(kubelet, job_id) == []
    assert log_of(service, job_id)[-1].endswith("began")


def test_a_restart_of_the_control_plane_changes_nothing(service: Installation, api_server: RunningServer) -> None:
    job_id = service.submit(taskset("echo began; sleep 15; echo ended", "sleep 15"))
    service.wait_state(job_id, "running")
    api_server.kill()
    assert service.job(job_id)["state"] == "running"
    api_server.start()
    job = wait_ended(service, [job_id])[job_id]
    assert job["state"] == "succeeded"
    assert service.events(job_id) == ["waiting", "running", "succeeded"]
    assert [line.rpartition(" ")[2] for line in log_of(service, job_id)] == ["began", "ended"]


def test_a_retry_begins_when_the_attempt_before_it_is_gone_and_its_whole_log_is_kept(
    service: Installation, kubelet: Kubelet, api: KubernetesApi, namespace: str
) -> None:
    stubborn = taskset("trap '' TERM; while :; do date +%s; sleep 0.2; done")
    (role,) = stubborn["spec"]["roles"]
    role["retryPolicy"] = {"retry": True, "delay": 0, "maxRetryCount": 1}
    role["template"]["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
    job_id = service.submit(stubborn)
    service.wait_state(job_id, "running")
    wait_for(lambda: log_of(service, job_id), "its first line")
    api.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/c-{job_id}-0")
    deleted = time.time()

    seen: set[tuple[str, ...]] = set()

    def retried() -> bool:
        assert service.job(job_id)["state"] == "running"
        seen.add(running_pods(kubelet, job_id))
        return (f"{job_id}-r0-0-1-0",) in seen

    wait_for(retried, "the retry")
    assert max(map(len, seen)) == 1, "never side by side"
    lines = service.ask("GET", f"/v1/job/logs/{job_id}?attempt=0").text.splitlines()
    assert int(lines[-1]) >= deleted + GRACE_SECONDS - 2, "it wrote to the end of its grace time"
    service.put(f"/v1/job/stop/{job_id}")
    assert wait_ended(service, [job_id])[job_id]["state"] == "stopped"
