"""The environment of tasks: lines of `K=V`, which names are the service's own, and what stands in the latter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
class Facts:
    """What a task is told about itself; the texts of its resources are those that the flow gives."""

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
    facts: Facts,
    ports: Sequence[int] = (),
    *,
    template: Mapping[str, str],
    flow: Mapping[str, str],
    task: Mapping[str, str],
) -> dict[str, str]:
    """The environment of a task: the template's, then the flow's, then the task's own, then what the service says.

    `ports` are those leased for a task with the host's network: `PORT1`, `PORT2`, and so on.
    """
    return {
        **template,
        **flow,
        **task,
        **dict(_told(facts)),
        **{f"PORT{n}": str(port) for n, port in enumerate(ports, 1)},
    }


def _told(facts: Facts) -> Iterator[tuple[str, str]]:
    for name, field in SERVICE_VARIABLES.items():
        yield name, str(getattr(facts, field))


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
"""Each variable that every task is told, and the field of Facts that it holds."""

_RESERVED_SHOWN = "KFJ_*, TASKSET_*, TASKROLE_*, PORT1, GPU_RESOURCE_NAME, RDMA_RESOURCE_NAME, USERNAME"
