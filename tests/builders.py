"""The documents that tests are about: TaskSets and their parts, features and their plugins, flows.

Each builder makes the smallest document of its kind; keyword arguments add fields or replace them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline_core.clusters.base import LaunchRequest, ReplicaKey

Document = dict[str, Any]


def container(script: str = "true", name: str = "main", **fields: Any) -> Document:
    """A container that runs a shell script."""
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **fields}


def role(
    name: str,
    *containers: Document,
    replicas: int = 1,
    annotations: Any = None,
    policies: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Document:
    """A role of a TaskSet; `spec` are fields of its pods, `policies` those of the role itself."""
    metadata = {"metadata": {"annotations": annotations}} if annotations else {}
    template = {**metadata, "spec": {"containers": list(containers or [container()]), **spec}}
    return {"name": name, "replicas": replicas, "template": template, **(policies or {})}


def taskset_of(*roles: Document, metadata: Mapping[str, Any] | None = None, **spec: Any) -> Document:
    """A TaskSet of these roles."""
    return {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "metadata": dict(metadata or {}),
        "spec": {"roles": list(roles), **spec},
    }


def taskset(script: str = "true", *, replicas: int = 1, name: str = "worker", **policies: Any) -> Document:
    """A TaskSet of one role whose container runs this shell script."""
    return taskset_of(role(name, container(script), replicas=replicas, policies=policies))


def launch_request(
    job_id: str,
    *roles: Document,
    attempt: int = 0,
    replicas: tuple[ReplicaKey, ...] | None = None,
    user: str = "u1",
    **spec: Any,
) -> LaunchRequest:
    """What a driver is asked to start: a TaskSet of these roles."""
    document = taskset_of(*roles, metadata={"name": f"set-{job_id}"}, **spec)
    return LaunchRequest(job_id, "default", user, document, attempt, replicas)


def script_request(job_id: str, script: str, *, count: int = 1, **fields: Any) -> LaunchRequest:
    """The same of one role `worker`, whose replicas run a shell script."""
    return launch_request(job_id, role("worker", container(script), replicas=count), **fields)


def collecting(request: LaunchRequest) -> LaunchRequest:
    """The same request, with a TaskSet that asks for its results."""
    metadata = {**request.taskset["metadata"], "annotations": {"pipeline/collect": "true"}}
    return replace(request, taskset={**request.taskset, "metadata": metadata})


def plugin(type: str = "AccessGate", address: str = "http://127.0.0.1:9/gate", **fields: Any) -> Document:
    """A plugin of a feature."""
    return {"pluginType": type, "callAddress": address, **fields}


def feature(name: str = "quota", *plugins: Document, author: str = "platform", **fields: Any) -> Document:
    """A feature; of one gate where no plugins are given."""
    return {"name": name, "author": author, "plugins": list(plugins or [plugin()]), **fields}


def flow_entry(
    name: str, dag: Mapping[str, Sequence[str]], tasks: Mapping[str, Any] | None = None, **pipeline: Any
) -> Document:
    """An entry of the import document: tasks with those upstream of each, which do nothing unless `tasks` say otherwise."""
    return {
        "pipeline": {
            "name": name,
            "dag_json": {task: {"upstream": list(before)} for task, before in dag.items()},
            **pipeline,
        },
        "tasks": [task_entry(task, **(tasks or {}).get(task, {})) for task in dag],
    }


def task_entry(name: str, *, script: str = "true", **fields: Any) -> Document:
    """A task that runs a shell script."""
    own = {"job_template": "customize", "args": {"images": "busybox", "command": script}}
    return {"name": name, **own, **fields}
