"""Environment variables of tasks: reading lines of `K=V`, and the variables that the service itself sets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.validation.texts import shown

RESERVED = re.compile(
    r"(KFJ_|TASKSET_|TASKROLE_).*|PORT[0-9]+|GPU_RESOURCE_NAME|RDMA_RESOURCE_NAME|USERNAME", re.DOTALL
)
"""Names that the service sets itself."""

_LINE_END = re.compile(r"\r?\n")
_NAME = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")


def read_lines(text: str) -> dict[str, str]:
    """The variables of a text with one `K=V` a line, in its order; the value is all behind the first `=`.

    Blank lines are left out. Raises NotationError for a line without `=`, a name that is none, is reserved or comes twice.
    """
    variables: dict[str, str] = {}
    for number, line in enumerate(_LINE_END.split(text), 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        name = name.strip()
        if not equals:
            raise NotationError(f"must have one `NAME=value` a line; line {number}, {shown(line)}, has no `=`")
        if not _NAME.fullmatch(name):
            raise NotationError(f"has in line {number} {shown(name)}, which is no name of an environment variable")
        if RESERVED.fullmatch(name):
            raise NotationError(
                f"has in line {number} {name}, which the service sets itself (names like {_RESERVED_SHOWN})"
            )
        if name in variables:
            raise NotationError(f"has {name} twice; the second time in line {number}")
        variables[name] = value
    return variables


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskContext:
    """Values of the variables that the service sets for a task; the texts of resources are as the flow has them."""

    run_id: str
    flow_id: str
    flow_name: str
    creator: str
    runner: str
    project: str
    task_id: str
    task_name: str
    image: str
    node_selector: str = ""
    volume_mount: str = ""
    cpu: str = ""
    memory: str = ""
    gpu: str = ""
    rdma: str = ""
    gpu_resource: str = ""
    rdma_resource: str = ""


def compose(
    context: TaskContext,
    ports: Sequence[int] = (),
    *,
    template: Mapping[str, str],
    flow: Mapping[str, str],
    task: Mapping[str, str],
) -> dict[str, str]:
    """The environment of a task: the template's, the flow's, the task's own and the service's variables; later ones win.

    `ports` are those leased for a task with the host's network; they become `PORT1`, `PORT2` and so on.
    """
    return {
        **template,
        **flow,
        **task,
        **{name: str(getattr(context, field)) for name, field in SERVICE_VARIABLES.items()},
        **{f"PORT{n}": str(port) for n, port in enumerate(ports, 1)},
    }


SERVICE_VARIABLES: Mapping[str, str] = {
    "KFJ_TASK_ID": "task_id",
    "KFJ_TASK_NAME": "task_name",
    "KFJ_TASK_NODE_SELECTOR": "node_selector",
    "KFJ_TASK_VOLUME_MOUNT": "volume_mount",
    "KFJ_TASK_IMAGES": "image",
    "KFJ_TASK_RESOURCE_CPU": "cpu",
    "KFJ_TASK_RESOURCE_MEMORY": "memory",
    "KFJ_TASK_RESOURCE_GPU": "gpu",
    "KFJ_TASK_RESOURCE_RDMA": "rdma",
    "KFJ_TASK_PROJECT_NAME": "project",
    "KFJ_RUN_ID": "run_id",
    "KFJ_PIPELINE_ID": "flow_id",
    "KFJ_PIPELINE_NAME": "flow_name",
    "KFJ_CREATOR": "creator",
    "KFJ_RUNNER": "runner",
    "GPU_RESOURCE_NAME": "gpu_resource",
    "RDMA_RESOURCE_NAME": "rdma_resource",
    "USERNAME": "creator",
}
"""The variables that the service sets for every task, and the field of TaskContext that each holds."""

_RESERVED_SHOWN = "KFJ_*, TASKSET_*, TASKROLE_*, PORT1, GPU_RESOURCE_NAME, RDMA_RESOURCE_NAME, USERNAME"
