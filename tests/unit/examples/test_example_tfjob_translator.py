from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tfjob_translator import Untranslatable, translate

EXAMPLE = Path(__file__).parents[3] / "examples" / "jobs" / "tfjob.yaml"


def replica_spec(**fields: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "tf", "command": ["python", "train.py"]}]}}
    return {"template": template, **fields}


def tfjob(specs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "n"},
        "spec": {"tfReplicaSpecs": specs, **spec},
    }
    return {"factors": {}, "header": {"jobID": "j01", "userID": "ada"}, "job": job}


def roles(specs: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    return translate(tfjob(specs, **spec))["spec"]["roles"]


def deciding(found: list[dict[str, Any]]) -> list[str]:
    return [role["name"] for role in found if "eventPolicy" in role]


def test_the_example_becomes_a_taskset_of_two_roles() -> None:
    job = yaml.safe_load(EXAMPLE.read_text())
    packet = {"factors": {}, "header": {"jobID": "j01"}, "job": job}
    before = copy.deepcopy(packet)
    answer = translate(packet)
    assert packet == before
    assert (answer["apiVersion"], answer["kind"]) == ("octopus.openi.pcl.cn/v1alpha1", "TaskSet")
    assert answer["metadata"] == {"name": "j01", "labels": {"team": "vision"}}
    chief, worker = answer["spec"]["roles"]
    assert (chief["name"], chief["replicas"], worker["name"], worker["replicas"]) == ("chief", 1, "worker", 2)
    assert chief["eventPolicy"] == [{"event": "RoleSucceeded", "action": "TaskSetSucceeded"}]
    assert worker["retryPolicy"] == {"retry": True, "delay": 0, "maxRetryCount": 2}


@pytest.mark.parametrize(
    ("specs", "spec", "expected"),
    [
        ({"Chief": 1, "Worker": 2, "PS": 1}, {}, ["chief"]),
        ({"Master": 1, "Worker": 2}, {}, ["master"]),
        ({"Worker": 1, "PS": 2}, {}, ["worker"]),
        ({"Worker": 3}, {}, ["worker-0"]),
        ({"Worker": 3}, {"successPolicy": "AllWorkers"}, ["worker"]),
    ],
)
def test_the_job_succeeds_with_its_chief_or_else_with_worker_0(
    specs: dict[str, int], spec: dict[str, Any], expected: list[str]
) -> None:
    assert deciding(roles({name: replica_spec(replicas=count) for name, count in specs.items()}, **spec)) == expected


def test_worker_0_has_a_role_of_its_own_and_the_others_count_on_from_it() -> None:
    found = roles({"Worker": replica_spec(replicas=3)})
    assert [(role["name"], role["replicas"]) for role in found] == [("worker-0", 1), ("worker", 2)]


def test_replicas_of_zero_are_no_role() -> None:
    found = roles({"PS": replica_spec(replicas=0), "Worker": replica_spec()})
    assert [role["name"] for role in found] == ["worker"]


def test_a_job_of_one_replica_needs_no_tf_config() -> None:
    (only,) = roles({"Worker": replica_spec()})
    assert only["template"]["spec"]["containers"][0]["command"] == ["python", "train.py"]


@pytest.mark.parametrize(
    ("restart", "limit", "pod", "retry"),
    [
        ("Never", 3, None, None),
        (None, 3, None, None),
        ("OnFailure", 3, None, {"retry": True, "delay": 0, "maxRetryCount": 3}),
        ("OnFailure", None, "OnFailure", None),
        ("Always", None, "OnFailure", None),
    ],
)
def test_restart_policy_and_backoff_limit_become_policies(restart: Any, limit: Any, pod: Any, retry: Any) -> None:
    spec = replica_spec() if restart is None else replica_spec(restartPolicy=restart)
    (role,) = roles({"Worker": spec}, runPolicy={} if limit is None else {"backoffLimit": limit})
    assert role["template"]["spec"].get("restartPolicy") == pod
    assert role.get("retryPolicy") == retry


def test_the_deadline_is_the_taskset_s() -> None:
    answer = translate(tfjob({"Worker": replica_spec()}, runPolicy={"activeDeadlineSeconds": 60}))
    assert answer["spec"]["activeDeadlineSeconds"] == 60


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        ({}, "names no replicas"),
        ({"Boss": replica_spec()}, "Boss"),
        ({"Worker": replica_spec(restartPolicy="ExitCode")}, "ExitCode"),
        ({"Worker": {"replicas": 1}}, "containers: there are none"),
        (
            {"Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "x"}]}}}},
            "none is named tensorflow",
        ),
        ({"Worker": replica_spec(), "worker": replica_spec()}, "worker: Worker is there twice"),
    ],
)
def test_what_a_taskset_cannot_say_is_refused_by_name(specs: dict[str, Any], says: str) -> None:
    with pytest.raises(Untranslatable, match=says):
        translate(tfjob(specs))


def test_types_of_replicas_are_known_in_any_case() -> None:
    specs = {"worker": replica_spec(replicas=2), "Ps": replica_spec()}
    assert [role["name"] for role in roles(specs)] == ["ps", "worker-0", "worker"]


def entrypoint_only(**fields: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "tf", "args": ["--fast"]}]}}, **fields}


def test_replicas_that_run_their_image_s_entrypoint_get_a_role_and_a_tf_config_each() -> None:
    chief, first, second = roles({"Chief": replica_spec(), "Worker": entrypoint_only(replicas=2)})
    assert (first["name"], second["name"], second["replicas"]) == ("worker-0", "worker-1", 1)
    (container,) = second["template"]["spec"]["containers"]
    assert (container.get("command"), container["args"]) == (None, ["--fast"])
    (variable,) = container["env"]
    assert json.loads(variable["value"]) == {
        "cluster": {
            "chief": ["$(TASKROLE_HOSTS_CHIEF):2222"],
            "worker": ["$(TASKROLE_HOSTS_WORKER_0):2223", "$(TASKROLE_HOSTS_WORKER_1):2224"],
        },
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    assert chief["template"]["spec"]["containers"][0]["command"][0] == "sh"


def test_all_workers_cannot_decide_together_from_roles_of_their_own() -> None:
    with pytest.raises(Untranslatable, match="AllWorkers, tensorflow needs a command"):
        translate(tfjob({"Worker": entrypoint_only(replicas=2)}, successPolicy="AllWorkers"))
