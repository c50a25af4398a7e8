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
RESTART = "OnFailure"
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
    master = role("master", 1, specs[MASTER], job, path, restart=RESTART) | {"eventPolicy": DECIDES}
    container = container_of(master, TRAINING_CONTAINER, path)
    shared = meeting(port_of(container), 1 + workers, job["spec"].get("nprocPerNode", "auto"))
    set_variables(container, shared | {"RANK": "0", "PET_NODE_RANK": "0"})
    return taskset(packet, [master, *worker_roles(workers, specs.get(WORKER, {}), job, shared)])


def worker_roles(
    workers: int, spec: dict[str, Any], job: dict[str, Any], shared: dict[str, str]
) -> list[dict[str, Any]]:
    """One role of all workers, whose command finds its rank; without a command a role for each, whose rank is known."""
    if not workers:
        return []
    path = f"spec.{FIELD}.{WORKER}"
    together = role("worker", workers, spec, job, path, restart=RESTART)
    container = container_of(together, TRAINING_CONTAINER, path)
    if container.get("command"):
        set_variables(container, shared)
        run_before(container, OWN_RANK)
        return [together]
    roles = [role(f"worker-{index}", 1, spec, job, path, restart=RESTART) for index in range(workers)]
    for rank, one in enumerate(roles, start=1):
        container = container_of(one, TRAINING_CONTAINER, path)
        set_variables(container, shared | {"RANK": str(rank), "PET_NODE_RANK": str(rank)})
    return roles


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
