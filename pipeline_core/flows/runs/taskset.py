"""The TaskSet that a task of a run is submitted as, with the roles of distributed tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_core.flows.definition.flow import Task
from pipeline_core.flows.definition.preparation import PreparedTask
from pipeline_core.flows.definition.templates import Behaviour, Start, Template
from pipeline_core.flows.notation import variables
from pipeline_core.flows.notation.environment import TaskContext, compose
from pipeline_core.flows.notation.mounts import pod_fields
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.notation.resources import as_text
from pipeline_core.flows.notation.site import GPU, Site
from pipeline_core.taskset.document import API_VERSION, COLLECT, KIND, RESERVED_PREFIX
from pipeline_core.taskset.schema import check

RUN_LABEL, FLOW_LABEL, TASK_LABEL = (f"{RESERVED_PREFIX}{word}" for word in ("run-id", "flow", "task"))
"""Labels of a task's TaskSet and of its pods."""

CONTAINER = "main"
"""The container of each pod that runs the task."""

DEBUG_GRACE_SECONDS = 60

HOST_PORTS = 2
"""Consecutive host ports that a task with the host's network leases."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """What all tasks of a run share. `execution_date` is a text in the flow's time zone."""

    id: str
    flow_id: str
    flow_name: str
    project: str
    creator: str
    runner: str
    execution_date: str
    timezone: str = "UTC"

    def builtin_values(self, site: Site) -> dict[str, Any]:
        """The values of the built-in variables in this run."""
        return variables.builtin_values(
            creator=self.creator,
            runner=self.runner,
            pipeline_id=self.flow_id,
            pipeline_name=self.flow_name,
            cluster_name=site.cluster_name,
            execution_date=self.execution_date,
            timezone=self.timezone,
        )


def ports_to_lease(template: Template, prepared: PreparedTask, *, shared_address: bool) -> int:
    """How many consecutive ports have to be leased before the TaskSet of a task is built.

    `shared_address`: all replicas of the cluster have the same address, as on a single machine.
    """
    if template.host_network:
        return HOST_PORTS
    if prepared.start is None or not (template.behaviour.distributed and shared_address):
        return 0
    return rendezvous_port_count(template.behaviour, prepared.start.replicas)


def build(
    task: Task,
    template: Template,
    prepared: PreparedTask,
    run: RunContext,
    global_env: Mapping[str, str],
    site: Site,
    ports: Sequence[int] = (),
    debug_seconds: int | None = None,
) -> dict[str, Any]:
    """The TaskSet document of a prepared task; `global_env` has its variables filled in already.

    It has no retries of its own: each attempt of a task is a job, and `timeout` is that of one attempt. With `debug_seconds`
    it sleeps so long instead of running the task's command. Raises TaskSetError when the document is not valid, and
    ValueError for a task that runs nothing.
    """
    if prepared.start is None:
        raise ValueError(f"the task {task.name} runs nothing")
    pod = _pod(task, template, prepared, prepared.start, run, global_env, site, ports)
    labels = {RUN_LABEL: run.id, FLOW_LABEL: _label(run.flow_name), TASK_LABEL: _label(task.name)}
    spec: dict[str, Any] = {
        "roles": [
            _role(role, prepared.start, pod, labels) for role in _roles(template, prepared.start, ports, debug_seconds)
        ]
    }
    # The end of a debug pod's sleep is a success; its deadline ends a pod that does not wake up.
    if deadline := debug_seconds + DEBUG_GRACE_SECONDS if debug_seconds else task.timeout:
        spec["activeDeadlineSeconds"] = deadline
    metadata = {"labels": labels, "annotations": {COLLECT: "true"}}
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    check(document)
    return document


def _roles(template: Template, start: Start, ports: Sequence[int], debug_seconds: int | None) -> list[RoleScript]:
    if debug_seconds:
        return [RoleScript(CONTAINER, 1, f"sleep {debug_seconds}")]
    if template.behaviour.distributed:
        return distributed_roles(template.behaviour, start.replicas, start.script, ports[0] if ports else None)
    return [RoleScript(CONTAINER, 1, start.script)]


def _role(role: RoleScript, start: Start, pod: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    container = pod["containers"][0] | _command(role.script, start)
    template = {"metadata": {"labels": dict(labels)}, "spec": {**pod, "containers": [container]}}
    policy = [{"event": "RoleCompleted", "action": "TaskSetCompleted"}] if role.decides else None
    return {"name": role.name, "replicas": role.replicas, "template": template} | (
        {"eventPolicy": policy} if policy else {}
    )


def _command(script: str, start: Start) -> dict[str, list[str]]:
    arguments = list(map(_literal, start.argv))
    if script:
        # What follows a script of `sh -c` is its name first, then its arguments.
        return {"command": ["sh", "-c", _literal(script)]} | ({"args": ["sh", *arguments]} if arguments else {})
    command = {"command": list(map(_literal, start.words))} if start.words else {}
    return command | ({"args": arguments} if arguments else {})


def _pod(
    task: Task,
    template: Template,
    prepared: PreparedTask,
    start: Start,
    run: RunContext,
    global_env: Mapping[str, str],
    site: Site,
    ports: Sequence[int],
) -> dict[str, Any]:
    """The pod's specification; its one container has no command yet."""
    own_ports = ports if template.host_network else ()
    environment = compose(
        _task_context(task, prepared, start, run, site),
        own_ports,
        template={**_shared_gpu_env(prepared), **prepared.template_env},
        flow=global_env,
        task=prepared.env,
    )
    volumes, mounts = pod_fields(prepared.mounts)
    container = {
        "name": CONTAINER,
        "image": start.image,
        "workingDir": start.workdir,
        "env": [{"name": name, "value": _literal(value)} for name, value in environment.items()],
        "resources": _resources(prepared, site),
        "volumeMounts": mounts,
        "ports": [{"containerPort": port, "hostPort": port} for port in own_ports],
        "securityContext": ({"privileged": True} if template.privileged else {})
        | ({"capabilities": {"add": ["IPC_LOCK"]}} if prepared.rdma else {}),
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [{key: value for key, value in container.items() if value}],
        "volumes": volumes,
        "nodeSelector": dict(prepared.node_selector),
        "serviceAccountName": template.account,
        "hostNetwork": template.host_network,
        "dnsPolicy": "ClusterFirstWithHostNet" if template.host_network else "",
    }
    return {key: value for key, value in pod.items() if value}


def _task_context(task: Task, prepared: PreparedTask, start: Start, run: RunContext, site: Site) -> TaskContext:
    return TaskContext(
        run_id=run.id,
        flow_id=run.flow_id,
        flow_name=run.flow_name,
        creator=run.creator,
        runner=run.runner,
        project=run.project,
        task_id=f"{run.id}-{task.key}",
        task_name=task.name,
        image=start.image,
        node_selector=",".join(f"{key}={value}" for key, value in prepared.node_selector.items()),
        volume_mount=prepared.volume_mount,
        cpu=as_text(task.resource_cpu),
        memory=as_text(task.resource_memory),
        gpu=as_text(task.resource_gpu),
        rdma=as_text(task.resource_rdma),
        gpu_resource=prepared.gpu.resource,
        rdma_resource=site.rdma_resource if prepared.rdma else "",
    )


def _resources(prepared: PreparedTask, site: Site) -> dict[str, dict[str, str]]:
    # Kubernetes wants request and limit of whole devices to be equal.
    devices = {**prepared.gpu.requests, **({site.rdma_resource: str(prepared.rdma)} if prepared.rdma else {})}
    amounts = {name: amount for name, amount in (("cpu", prepared.cpu), ("memory", prepared.memory)) if amount}
    both = {
        "requests": {**{name: amount.request for name, amount in amounts.items()}, **devices},
        "limits": {**{name: amount.limit for name, amount in amounts.items()}, **devices},
    }
    return both if both["limits"] else {}


def _shared_gpu_env(prepared: PreparedTask) -> dict[str, str]:
    """A shared card is not requested, so Kubernetes does not make it visible."""
    gpu = prepared.gpu
    return {"NVIDIA_VISIBLE_DEVICES": "all"} if gpu.shared and gpu.vendor == GPU else {}


def _label(name: str) -> str:
    return identity(name).rstrip("-")


def _literal(text: str) -> str:
    """The text as Kubernetes hands it on unchanged: it reads `$$` as `$`."""
    return text.replace("$$", "$$$$")


MASTER, WORKER = "master", "worker"
RENDEZVOUS_PORTS = {Behaviour.PYTORCHJOB: 23456, Behaviour.TFJOB: 2222}
"""The first port that replicas connect to where each replica has an address of its own."""


@dataclass(frozen=True, slots=True)
class RoleScript:
    """One role of a task: its replicas run `script`; with `decides`, the task ends when the role has ended."""

    name: str
    replicas: int
    script: str
    decides: bool = False


def distributed_roles(behaviour: Behaviour, replicas: int, script: str, port: int | None = None) -> list[RoleScript]:
    """The roles of a distributed task: one master and `replicas - 1` workers. What precedes the task's script in each role
    lets the replicas find each other, from the variables that every container has (`TASKROLE_REPLICA_INDEX`,
    `TASKROLE_HOSTS_MASTER`, `TASKROLE_HOSTS_WORKER`).

    `port` is the first of `rendezvous_port_count` consecutive ports that are free wherever the replicas run, or None.
    """
    return _ROLES[behaviour](replicas, script, port or RENDEZVOUS_PORTS.get(behaviour, 0))


def rendezvous_port_count(behaviour: Behaviour, replicas: int) -> int:
    """How many consecutive ports the replicas need when all of them share one address."""
    return {Behaviour.PYTORCHJOB: 1, Behaviour.TFJOB: replicas}.get(behaviour, 0)


def _with_workers(master: RoleScript, worker: Callable[[int], RoleScript], replicas: int) -> list[RoleScript]:
    return [master, worker(replicas - 1)] if replicas > 1 else [master]


def _pytorch(replicas: int, script: str, port: int) -> list[RoleScript]:
    # https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization
    rendezvous = f'export MASTER_ADDR="${{TASKROLE_HOSTS_MASTER%%,*}}" MASTER_PORT={port} WORLD_SIZE={replicas}'
    return _with_workers(
        RoleScript(MASTER, 1, f"{rendezvous} RANK=0\n{script}"),
        lambda count: RoleScript(WORKER, count, f"{rendezvous} RANK=$((TASKROLE_REPLICA_INDEX + 1))\n{script}"),
        replicas,
    )


_LISTING = (
    'pipeline_list=; pipeline_port={port}; IFS=,; for pipeline_host in ${variable}; do pipeline_list="$pipeline_list,'
    '\\"$pipeline_host:$pipeline_port\\""; pipeline_port=$((pipeline_port + 1)); done; unset IFS; {name}=${{pipeline_list#,}}\n'
)


def _tensorflow(replicas: int, script: str, port: int) -> list[RoleScript]:
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
        RoleScript(MASTER, 1, configured("chief")),
        lambda count: RoleScript(WORKER, count, configured("worker")),
        replicas,
    )


def _mpi(replicas: int, script: str, port: int) -> list[RoleScript]:
    # Open MPI, Intel MPI and MPICH each read the list of hosts from a variable of their own.
    hosts = (
        "pipeline_hosts=$(mktemp); IFS=,; for pipeline_host in $TASKROLE_HOSTS_MASTER ${TASKROLE_HOSTS_WORKER:-}; do "
        'echo "$pipeline_host"; done > "$pipeline_hosts"; unset IFS\n'
        'export OMPI_MCA_orte_default_hostfile="$pipeline_hosts" I_MPI_HYDRA_HOST_FILE="$pipeline_hosts" '
        'HYDRA_HOST_FILE="$pipeline_hosts"\n'
    )
    return _with_workers(
        RoleScript(MASTER, 1, hosts + script, decides=True),
        lambda count: RoleScript(WORKER, count, "mkdir -p /run/sshd; exec /usr/sbin/sshd -De"),
        replicas,
    )


_ROLES: Mapping[Behaviour, Callable[[int, str, int], list[RoleScript]]] = {
    Behaviour.PYTORCHJOB: _pytorch,
    Behaviour.TFJOB: _tensorflow,
    Behaviour.MPIJOB: _mpi,
}
