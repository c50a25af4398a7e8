"""How the replicas of a distributed task find each other: what is run before its script, in each role.

The replicas of a role share a template, so what differs between them is made where they run, from the variables that
every container has (`TASKROLE_REPLICA_INDEX`, `TASKROLE_HOSTS_MASTER`, `TASKROLE_HOSTS_WORKER`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline_core.flows.definition.templates import Behaviour

MASTER, WORKER = "master", "worker"
DEFAULT_PORTS = {Behaviour.PYTORCHJOB: 23456, Behaviour.TFJOB: 2222}
"""The port, or the first of them, that replicas meet at where each has an address of its own."""


@dataclass(frozen=True, slots=True)
class Part:
    """One role: its script, and whether its end is that of the whole task."""

    name: str
    replicas: int
    script: str
    decides: bool = False


def parts(behaviour: Behaviour, replicas: int, script: str, port: int | None = None) -> list[Part]:
    """The roles of a distributed task: one master and `replicas - 1` workers.

    `port` is the first of `ports_needed` ports in a row that are free wherever the replicas run; None for the default.
    """
    return _PARTS[behaviour](replicas, script, port or DEFAULT_PORTS.get(behaviour, 0))


def ports_needed(behaviour: Behaviour, replicas: int) -> int:
    """How many ports in a row the replicas need when all of them share one address."""
    return {Behaviour.PYTORCHJOB: 1, Behaviour.TFJOB: replicas}.get(behaviour, 0)


def _with_workers(master: Part, worker: Callable[[int], Part], replicas: int) -> list[Part]:
    return [master, worker(replicas - 1)] if replicas > 1 else [master]


def _pytorch(replicas: int, script: str, port: int) -> list[Part]:
    # https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization
    meet = f'export MASTER_ADDR="${{TASKROLE_HOSTS_MASTER%%,*}}" MASTER_PORT={port} WORLD_SIZE={replicas}'
    return _with_workers(
        Part(MASTER, 1, f"{meet} RANK=0\n{script}"),
        lambda count: Part(WORKER, count, f"{meet} RANK=$((TASKROLE_REPLICA_INDEX + 1))\n{script}"),
        replicas,
    )


_LISTING = (
    'pipeline_list=; pipeline_port={port}; IFS=,; for pipeline_host in ${variable}; do pipeline_list="$pipeline_list,'
    '\\"$pipeline_host:$pipeline_port\\""; pipeline_port=$((pipeline_port + 1)); done; unset IFS; {name}=${{pipeline_list#,}}\n'
)


def _tensorflow(replicas: int, script: str, port: int) -> list[Part]:
    # https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable
    # Ports count up over all replicas, so that they differ when all share one address.
    lists = _LISTING.format(port=port, variable="TASKROLE_HOSTS_MASTER", name="pipeline_chief")
    cluster = '\\"chief\\": [$pipeline_chief]'
    if replicas > 1:
        lists += _LISTING.format(port=port + 1, variable="TASKROLE_HOSTS_WORKER", name="pipeline_worker")
        cluster += ', \\"worker\\": [$pipeline_worker]'

    def configured(kind: str) -> str:
        task = f'\\"type\\": \\"{kind}\\", \\"index\\": $TASKROLE_REPLICA_INDEX'
        return f'{lists}export TF_CONFIG="{{\\"cluster\\": {{{cluster}}}, \\"task\\": {{{task}}}}}"\n{script}'

    return _with_workers(
        Part(MASTER, 1, configured("chief")), lambda count: Part(WORKER, count, configured("worker")), replicas
    )


def _mpi(replicas: int, script: str, port: int) -> list[Part]:
    # Open MPI, Intel MPI and MPICH each read the list of hosts from a variable of their own.
    hosts = (
        "pipeline_hosts=$(mktemp); IFS=,; for pipeline_host in $TASKROLE_HOSTS_MASTER ${TASKROLE_HOSTS_WORKER:-}; do "
        'echo "$pipeline_host"; done > "$pipeline_hosts"; unset IFS\n'
        'export OMPI_MCA_orte_default_hostfile="$pipeline_hosts" I_MPI_HYDRA_HOST_FILE="$pipeline_hosts" '
        'HYDRA_HOST_FILE="$pipeline_hosts"\n'
    )
    return _with_workers(
        Part(MASTER, 1, hosts + script, decides=True),
        lambda count: Part(WORKER, count, "mkdir -p /run/sshd; exec /usr/sbin/sshd -De"),
        replicas,
    )


_PARTS: Mapping[Behaviour, Callable[[int, str, int], list[Part]]] = {
    Behaviour.PYTORCHJOB: _pytorch,
    Behaviour.TFJOB: _tensorflow,
    Behaviour.MPIJOB: _mpi,
}
