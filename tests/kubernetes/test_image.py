"""The image and the manifests, for real: docker/kustomize/trial on a node, from its start to its end.

The tests run in the order of this file: the last one deletes what the others look at.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.kubernetes.pods import Watched, exit_codes, watched
from tests.kubernetes.trial import COMPONENT, JOBS, PASSWORD, SERVICE, NobodyReady, Trial, a_trial_in
from tests.kubernetes.world import taskset
from tests.manifests import KUSTOMIZE, documents, of_kind
from tests.waiting import HANG_SECONDS, wait_for

COMPONENTS = [
    deployment["metadata"]["labels"][COMPONENT]
    for deployment in of_kind(documents(*sorted((KUSTOMIZE / "base").glob("*.yaml"))), "Deployment")
]
KILLED = 137
"""The exit code of what SIGKILL has ended."""
PAUSE_SECONDS = 3.0
"""Between two submissions of the load, each of which is a pod."""
ENDED = ("succeeded", "failed", "stopped")
# Fifteen containers start at once, on as few cores as there are: what hangs is found by the waits.
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def trial(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with a_trial_in(kubeconfig, tmp_path_factory.mktemp("trial")) as made:
        made.wait_available()
        yield made


def submission(script: str) -> dict[str, Any]:
    return {"userID": "ann", "jobName": "hello", "jobKind": "TaskSet", "job": taskset(script)}


def curl(trial: Trial, method: str, path: str, body: Any = None) -> Any:
    """The payload that curl is answered."""
    words = ["curl", "-sS", "--fail-with-body", "-X", method, trial.url() + path, "-H", f"token: {PASSWORD}"]
    if body:
        words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["payload"]


def state_of(trial: Trial, job_id: str) -> str:
    return str(trial.get(f"/v1/job/detail/{job_id}")["job"]["state"])


def wait_state(trial: Trial, job_id: str, *states: str) -> str:
    def reached() -> str | None:
        state = state_of(trial, job_id)
        return state if state in states else None

    return wait_for(
        reached, f"{job_id} to be {' or '.join(states)}", progress=lambda: trial.get(f"/v1/job/detail/{job_id}")["job"]
    )


def log_of(trial: Trial, job_id: str) -> list[str]:
    return trial.ask("GET", f"/v1/job/logs/{job_id}").text.splitlines()


def states_of(trial: Trial, job_id: str) -> list[str]:
    return [event["state"] for event in trial.get(f"/v1/job/events/{job_id}")]


def test_a_job_goes_from_curl_to_success_by_the_rights_of_the_service_s_own_account(trial: Trial) -> None:
    job_id = curl(trial, "POST", "/v1/job", submission("echo hello from $TASKROLE_NAME; sleep 2"))["jobID"]
    wait_state(trial, job_id, "running", "succeeded")
    assert wait_state(trial, job_id, *ENDED) == "succeeded"
    assert states_of(trial, job_id) == ["waiting", "running", "succeeded"]
    wait_for(lambda: log_of(trial, job_id), "its log")
    assert log_of(trial, job_id)[-1].endswith("hello from r0")


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_process_runs_without_rights_and_has_never_been_restarted(trial: Trial, component: str) -> None:
    pods = trial.pods(component)
    assert pods
    for pod in pods:
        (container,) = pod["status"]["containerStatuses"]
        assert container["ready"], component
        assert container["restartCount"] == 0, component
    name = pods[0]["metadata"]["name"]
    said = trial.kubectl(
        "exec", "-n", SERVICE, name, "-c", "main", "--", "sh", "-c", "id -u; touch /opt/x 2>&1 || true"
    )
    user, refusal = said.splitlines()
    assert user == "10001"
    assert "Read-only file system" in refusal


def test_the_image_knows_its_version_and_commit(trial: Trial) -> None:
    name = trial.pods("api")[0]["metadata"]["name"]
    said = trial.kubectl("exec", "-n", SERVICE, name, "-c", "main", "--", "pipeline", "--version").split()
    assert re.fullmatch(r"[0-9a-f]{40}(-modified)?", said[-1])


def test_flower_asks_for_its_password(trial: Trial) -> None:
    (pod,) = trial.pods("flower")
    url = f"http://{pod['status']['podIP']}:5555/workers"
    assert requests.get(url, timeout=30).status_code == 401
    assert requests.get(url, auth=("admin", "a-flower_password"), timeout=30).status_code == 200


def test_the_service_s_account_may_do_nothing_in_its_own_namespace(trial: Trial) -> None:
    account = f"--as=system:serviceaccount:{SERVICE}:pipeline"
    for namespace, expected in ((JOBS, "yes"), (SERVICE, "no")):
        done = subprocess.run(
            ["kubectl", "--kubeconfig", trial.kubeconfig, "auth", "can-i", "create", "pods", "-n", namespace, account],
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert done.stdout.strip() == expected, namespace


def processes_of(trial: Trial) -> set[str]:
    """The names of the pods that run the service's own processes."""
    return {pod["metadata"]["name"] for pod in trial.pods() if COMPONENT in pod["metadata"]["labels"]}


def killed(seen: Watched, names: set[str]) -> dict[str, int]:
    """The exit codes of those of the pods that were killed."""
    codes = exit_codes(Path(os.environ["PIPELINE_TEST_KUBE_EVENTS"]))
    ended = {name: codes[seen.containers[name]] for name in names}
    return {name: code for name, code in ended.items() if code == KILLED}


def test_a_restart_of_every_process_under_load_loses_nothing_and_runs_nothing_twice(
    trial: Trial, kubeconfig: str
) -> None:
    accepted: list[str] = []
    refused: list[str] = []
    over = threading.Event()

    def submit() -> None:
        while not over.wait(PAUSE_SECONDS):
            try:
                response = trial.ask("POST", "/v1/job", submission("echo ran; sleep 1"))
                response.raise_for_status()
                accepted.append(response.json()["payload"]["jobID"])
            except (requests.RequestException, NobodyReady) as error:
                refused.append(str(error))

    with watched(kubeconfig, JOBS) as of_jobs, watched(kubeconfig, SERVICE) as of_service:
        before = processes_of(trial)
        load = threading.Thread(target=submit, daemon=True)
        load.start()
        wait_for(lambda: len(accepted) > 3, "the load", progress=lambda: (len(accepted), list(refused)))
        trial.kubectl("rollout", "restart", "deployment", "-n", SERVICE)
        trial.wait_available()
        wait_for(lambda: before <= of_service.gone, "all old pods to be gone", progress=lambda: set(of_service.gone))
        over.set()
        load.join()
        ended = {job_id: wait_state(trial, job_id, *ENDED) for job_id in accepted}
    print(f"\n{len(accepted)} jobs accepted, {len(refused)} requests refused")  # noqa: T201 - a figure for the docs
    assert set(ended.values()) == {"succeeded"}, ended
    assert refused == []
    assert killed(of_service, before) == {}
    assert {job_id: len(of_jobs.uids[job_id]) for job_id in accepted} == dict.fromkeys(accepted, 1)
    assert {job_id: states_of(trial, job_id) for job_id in accepted} == {
        job_id: ["waiting", "running", "succeeded"] for job_id in accepted
    }


def test_what_is_deleted_ends_within_its_grace_time(trial: Trial, kubeconfig: str) -> None:
    job_id = curl(trial, "POST", "/v1/job", submission("sleep 600"))["jobID"]
    wait_state(trial, job_id, "running")
    with watched(kubeconfig, SERVICE) as of_service:
        running = processes_of(trial)
        trial.kubectl("delete", "deployment", "--all", "-n", SERVICE)
        wait_for(lambda: running <= of_service.gone, "all pods to be gone", progress=lambda: set(of_service.gone))
    assert killed(of_service, running) == {}
    trial.kubectl("delete", "--ignore-not-found", "-k", str(trial.directory / "overlay"))
    namespaces = trial.api.request("GET", "/api/v1/namespaces")["items"]
    assert not {SERVICE, JOBS} & {one["metadata"]["name"] for one in namespaces}
