"""TemplateTranslator: a PyTorchJob (kubeflow.org/v1) becomes a TaskSet.

The fields of a PyTorchJob: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/
What PyTorch reads: https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization
"""

from __future__ import annotations

from typing import Any

from kubeflow_jobs import (
    DECIDES,
    Untranslatable,
    container_of,
    hosts_variable,
    replica_specs,
    replicas,
    role,
    run_before,
    set_variables,
    taskset,
)

MASTER, WORKER = "Master", "Worker"
FIELD = "pytorchReplicaSpecs"
TRAINING_CONTAINER = "pytorch"
PORT_NAME = "pytorchjob-port"
DEFAULT_PORT = 23456
# Workers share a template, so each finds its rank where it runs. The master is rank 0.
OWN_RANK = "RANK=$((TASKROLE_REPLICA_INDEX + 1)); PET_NODE_RANK=$RANK; export RANK PET_NODE_RANK"


def translate(packet: dict[str, Any]) -> dict[str, Any]:
    """The TaskSet for the PyTorchJob in `packet["job"]`: roles `master` and `worker`. It succeeds with its master."""
    job = packet["job"]
    specs = replica_specs(job, FIELD, (MASTER, WORKER))
    if job["spec"].get("elasticPolicy"):
        raise Untranslatable("spec.elasticPolicy has no counterpart: a role's number of replicas is fixed")
    if MASTER not in specs or replicas(specs[MASTER]) != 1:
        raise Untranslatable(f"spec.{FIELD}.{MASTER}: there must be one, with one replica")
    workers = replicas(specs[WORKER]) if WORKER in specs else 0
    path = f"spec.{FIELD}.{MASTER}"
    master = role("master", 1, specs[MASTER], job, path) | {"eventPolicy": DECIDES}
    container = container_of(master, TRAINING_CONTAINER, path)
    shared = meeting(port_of(container), 1 + workers, job["spec"].get("nprocPerNode", 1))
    set_variables(container, shared | {"RANK": "0", "PET_NODE_RANK": "0"})
    roles = [master]
    if workers:
        path = f"spec.{FIELD}.{WORKER}"
        worker = role("worker", workers, specs[WORKER], job, path)
        container = container_of(worker, TRAINING_CONTAINER, path)
        set_variables(container, shared)
        run_before(container, OWN_RANK, path, "RANK")
        roles.append(worker)
    return taskset(packet, roles)


def meeting(port: int, nodes: int, per_node: int | str) -> dict[str, str]:
    """Where the replicas meet and how many they are, for PyTorch itself and (`PET_…`) for torchrun.

    `per_node` may be a word, such as `auto`, which torchrun alone understands.
    """
    processes = int(per_node) if str(per_node).isdigit() else 1
    master = f"$({hosts_variable('master')})"
    return {
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": master,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(nodes * processes),
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": str(port),
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": str(per_node),
    }


def port_of(container: dict[str, Any]) -> int:
    named = [port["containerPort"] for port in container.get("ports") or [] if port.get("name") == PORT_NAME]
    return named[0] if named else DEFAULT_PORT
