"""The script that makes TF_CONFIG, run by the shells of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from command_decorator import decorate
from tfjob_translator import translate

from tests.waiting import HANG_SECONDS

PRINT = [sys.executable, "-c", "import os, sys; print(os.environ['TF_CONFIG']); print(sys.argv[1:])"]


def tfjob(**counts: int) -> dict[str, Any]:
    container = {"name": "tensorflow", "image": "tf", "command": PRINT}
    specs = {
        name: {"replicas": count, "template": {"spec": {"containers": [container]}}} for name, count in counts.items()
    }
    return {"header": {"jobID": "j01"}, "factors": {}, "job": {"kind": "TFJob", "spec": {"tfReplicaSpecs": specs}}}


def run(taskset: dict[str, Any], role_name: str, index: int) -> list[str]:
    (role,) = [role for role in taskset["spec"]["roles"] if role["name"] == role_name]
    hosts = {
        f"TASKROLE_HOSTS_{other['name'].upper().replace('-', '_')}": ",".join(
            f"{other['name']}-{number}.j01" for number in range(other["replicas"])
        )
        for other in taskset["spec"]["roles"]
    }
    command = [*role["template"]["spec"]["containers"][0]["command"], "a b", "c"]
    environment = {"PATH": "/usr/bin:/bin", "TASKROLE_REPLICA_INDEX": str(index), **hosts}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=HANG_SECONDS)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("counts", "role", "index", "cluster", "task"),
    [
        (
            {"Chief": 1, "Worker": 2, "PS": 1, "Evaluator": 1},
            "worker",
            1,
            {
                "chief": ["chief-0.j01:2222"],
                "ps": ["ps-0.j01:2223"],
                "worker": ["worker-0.j01:2224", "worker-1.j01:2225"],
            },
            {"type": "worker", "index": 1},
        ),
        (
            {"Chief": 1, "Worker": 1, "Evaluator": 1},
            "evaluator",
            0,
            {"chief": ["chief-0.j01:2222"], "worker": ["worker-0.j01:2223"]},
            {"type": "evaluator", "index": 0},
        ),
        (
            {"Worker": 3},
            "worker",
            1,
            {"worker": ["worker-0-0.j01:2222", "worker-0.j01:2223", "worker-1.j01:2224"]},
            {"type": "worker", "index": 2},
        ),
    ],
)
def test_each_replica_learns_the_cluster_and_its_own_place(
    counts: dict[str, int], role: str, index: int, cluster: dict[str, list[str]], task: dict[str, Any]
) -> None:
    config, arguments = run(translate(tfjob(**counts)), role, index)
    assert json.loads(config) == {"cluster": cluster, "task": task, "environment": "cloud"}
    assert arguments == "['a b', 'c']"


def test_a_decorated_command_greets_and_then_runs_as_before() -> None:
    packet = tfjob(Chief=1, Worker=1)
    decorated = decorate(packet | {"job": translate(packet)})
    greeting, config, arguments = run(decorated, "chief", 0)
    assert "prepared" in greeting
    assert json.loads(config)["task"] == {"type": "chief", "index": 0}
    assert arguments == "['a b', 'c']"


def test_words_that_are_no_shell_script_are_greeted_too() -> None:
    packet = tfjob(Worker=1)
    role = decorate(packet | {"job": translate(packet)})["spec"]["roles"][0]
    command = [*role["template"]["spec"]["containers"][0]["command"][:4], "-c", "print(1)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_SECONDS)
    assert done.stdout.splitlines() == ["prepared by the example decorator", "1"]
