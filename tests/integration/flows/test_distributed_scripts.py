"""The scripts by which the replicas of a task find each other, as the shell of this machine runs them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from pipeline_core.flows.definition.templates import Behaviour
from pipeline_core.flows.runs.taskset import distributed_roles

HOSTS = {"TASKROLE_HOSTS_MASTER": "m-0", "TASKROLE_HOSTS_WORKER": "w-0,w-1"}


def output(script: str, index: int, **more: str) -> str:
    environment = {**os.environ, **HOSTS, "TASKROLE_REPLICA_INDEX": str(index), **more}
    return subprocess.run(
        ["sh", "-euc", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_replicas_of_pytorch_know_their_master_and_rank() -> None:
    master, worker = distributed_roles(Behaviour.PYTORCHJOB, 3, 'echo "$MASTER_ADDR:$MASTER_PORT $RANK/$WORLD_SIZE"')
    assert output(master.script, 0) == "m-0:23456 0/3"
    assert [output(worker.script, index) for index in (0, 1)] == ["m-0:23456 1/3", "m-0:23456 2/3"]


def test_the_replicas_of_tensorflow_have_their_configuration() -> None:
    master, worker = distributed_roles(Behaviour.TFJOB, 3, 'echo "$TF_CONFIG"', 3000)
    cluster = {"chief": ["m-0:3000"], "worker": ["w-0:3001", "w-1:3002"]}
    assert json.loads(output(master.script, 0)) == {"cluster": cluster, "task": {"type": "chief", "index": 0}}
    assert json.loads(output(worker.script, 1)) == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    (alone,) = distributed_roles(Behaviour.TFJOB, 1, 'echo "$TF_CONFIG"')
    assert json.loads(output(alone.script, 0))["cluster"] == {"chief": ["m-0:2222"]}


def test_the_master_of_mpi_decides_and_lists_all_hosts(tmp_path: Path) -> None:
    master, worker = distributed_roles(Behaviour.MPIJOB, 3, 'cat "$OMPI_MCA_orte_default_hostfile"')
    assert output(master.script, 0, TMPDIR=str(tmp_path)).split() == ["m-0", "w-0", "w-1"]
    assert (master.decides, worker.decides, worker.replicas) == (True, False, 2)
    assert "sshd" in worker.script
