"""The TaskSet of a task of a run: what its job is submitted as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_core.flows.definition.flow import Task
from pipeline_core.flows.definition.preparation import Prepared
from pipeline_core.flows.definition.templates import Start, Template
from pipeline_core.flows.notation import variables
from pipeline_core.flows.notation.environment import Facts, compose
from pipeline_core.flows.notation.mounts import pod_fields
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.notation.resources import plain
from pipeline_core.flows.notation.site import GPU, Site
from pipeline_core.flows.runs.rendezvous import Part, parts, ports_needed
from pipeline_core.taskset.document import API_VERSION, COLLECT, KIND, RESERVED_PREFIX
from pipeline_core.taskset.schema import check

RUN_LABEL, FLOW_LABEL, TASK_LABEL = (f"{RESERVED_PREFIX}{word}" for word in ("run-id", "flow", "task"))
"""Labels of a task's TaskSet and of its pods."""

CONTAINER = "main"
"""The container of each pod that runs the task."""

DEBUG_GRACE_SECONDS = 60

HOST_PORTS = 2
"""Ports leased for a task with the host's network."""


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

    def context(self, site: Site) -> dict[str, Any]:
        """The values of the variables' own names in this run."""
        return variables.context(
            creator=self.creator,
            runner=self.runner,
            pipeline_id=self.flow_id,
            pipeline_name=self.flow_name,
            cluster_name=site.cluster_name,
            execution_date=self.execution_date,
            timezone=self.timezone,
        )


def leased_ports(template: Template, prepared: Prepared, *, shared_address: bool) -> int:
    """How many ports in a row a task needs to be leased before its TaskSet is built.

    `shared_address` is whether all replicas of a cluster have one address, as on a single machine.
    """
    if template.host_network:
        return HOST_PORTS
    if prepared.start is None or not (template.behaviour.distributed and shared_address):
        return 0
    return ports_needed(template.behaviour, prepared.start.replicas)


def build(
    task: Task,
    template: Template,
    prepared: Prepared,
    run: RunContext,
    global_env: Mapping[str, str],
    site: Site,
    ports: Sequence[int] = (),
    debug_seconds: int | None = None,
) -> dict[str, Any]:
    """The TaskSet document of a prepared task; `global_env` has its variables filled in already.

    It has no retry of its own: each try of a task is a job, so that `timeout` is that of one try. With `debug_seconds` it
    sleeps so long in place of the task's command. Raises TaskSetError when it is none that can run, and ValueError for a
    task that runs nothing.
    """
    if prepared.start is None:
        raise ValueError(f"the task {task.name} runs nothing")
    pod = _pod(task, template, prepared, prepared.start, run, global_env, site, ports)
    labels = {RUN_LABEL: run.id, FLOW_LABEL: _label(run.flow_name), TASK_LABEL: _label(task.name)}
    spec: dict[str, Any] = {
        "roles": [
            _role(part, prepared.start, pod, labels) for part in _parts(template, prepared.start, ports, debug_seconds)
        ]
    }
    # The end of a debug pod's sleep is a success, and its deadline is there for what does not wake up.
    if deadline := debug_seconds + DEBUG_GRACE_SECONDS if debug_seconds else task.timeout:
        spec["activeDeadlineSeconds"] = deadline
    metadata = {"labels": labels, "annotations": {COLLECT: "true"}}
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    check(document)
    return document


def _parts(template: Template, began: Start, ports: Sequence[int], debug_seconds: int | None) -> list[Part]:
    if debug_seconds:
        return [Part(CONTAINER, 1, f"sleep {debug_seconds}")]
    if template.behaviour.distributed:
        return parts(template.behaviour, began.replicas, began.script, ports[0] if ports else None)
    return [Part(CONTAINER, 1, began.script)]


def _role(part: Part, began: Start, pod: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    container = pod["containers"][0] | _command(part.script, began)
    template = {"metadata": {"labels": dict(labels)}, "spec": {**pod, "containers": [container]}}
    policy = [{"event": "RoleCompleted", "action": "TaskSetCompleted"}] if part.decides else None
    return {"name": part.name, "replicas": part.replicas, "template": template} | (
        {"eventPolicy": policy} if policy else {}
    )


def _command(script: str, began: Start) -> dict[str, list[str]]:
    arguments = list(map(_literal, began.argv))
    if script:
        # What follows a script of `sh -c` is its name first, then its arguments.
        return {"command": ["sh", "-c", _literal(script)]} | ({"args": ["sh", *arguments]} if arguments else {})
    command = {"command": list(map(_literal, began.words))} if began.words else {}
    return command | ({"args": arguments} if arguments else {})


def _pod(
    task: Task,
    template: Template,
    prepared: Prepared,
    began: Start,
    run: RunContext,
    global_env: Mapping[str, str],
    site: Site,
    ports: Sequence[int],
) -> dict[str, Any]:
    """The pod's specification, its one container without a command."""
    own_ports = ports if template.host_network else ()
    environment = compose(
        _facts(task, prepared, began, run, site),
        own_ports,
        template={**_visible(prepared), **prepared.template_env},
        flow=global_env,
        task=prepared.env,
    )
    volumes, mounts = pod_fields(prepared.mounts)
    container = {
        "name": CONTAINER,
        "image": began.image,
        "workingDir": began.workdir,
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


def _facts(task: Task, prepared: Prepared, began: Start, run: RunContext, site: Site) -> Facts:
    return Facts(
        run_id=run.id,
        flow_id=run.flow_id,
        flow_name=run.flow_name,
        creator=run.creator,
        runner=run.runner,
        project=run.project,
        task_id=f"{run.id}-{task.key}",
        task_name=task.name,
        image=began.image,
        node_selector=",".join(f"{key}={value}" for key, value in prepared.node_selector.items()),
        volume_mount=prepared.volume_mount,
        cpu=plain(task.resource_cpu),
        memory=plain(task.resource_memory),
        gpu=plain(task.resource_gpu),
        rdma=plain(task.resource_rdma),
        gpu_resource=prepared.gpu.resource,
        rdma_resource=site.rdma_resource if prepared.rdma else "",
    )


def _resources(prepared: Prepared, site: Site) -> dict[str, dict[str, str]]:
    # Kubernetes wants request and limit of whole devices to be equal.
    devices = {**prepared.gpu.requests, **({site.rdma_resource: str(prepared.rdma)} if prepared.rdma else {})}
    amounts = {name: amount for name, amount in (("cpu", prepared.cpu), ("memory", prepared.memory)) if amount}
    both = {
        "requests": {**{name: amount.request for name, amount in amounts.items()}, **devices},
        "limits": {**{name: amount.limit for name, amount in amounts.items()}, **devices},
    }
    return both if both["limits"] else {}


def _visible(prepared: Prepared) -> dict[str, str]:
    """A card that is shared is not asked for, so that nobody else makes it visible."""
    gpu = prepared.gpu
    return {"NVIDIA_VISIBLE_DEVICES": "all"} if gpu.shared and gpu.vendor == GPU else {}


def _label(name: str) -> str:
    return identity(name).rstrip("-")


def _literal(text: str) -> str:
    """The text as Kubernetes hands it on unchanged: it reads `$$` as `$`."""
    return text.replace("$$", "$$$$")
