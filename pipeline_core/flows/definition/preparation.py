"""Preparing a task for submission: its variables are rendered, its notation read, its arguments checked.

The same code checks a flow against its templates when it is imported, with stand-in values, and prepares a task of a run
right before its job is submitted.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pipeline_core.errors import WrongParameter
from pipeline_core.flows.definition.flow import TEMPLATE_KEYS, Flow, Task
from pipeline_core.flows.definition.templates import Behaviour, Start, Template, start
from pipeline_core.flows.notation import variables
from pipeline_core.flows.notation.arguments import check_value, fill_defaults
from pipeline_core.flows.notation.environment import read_lines
from pipeline_core.flows.notation.errors import NotationError, collect_errors
from pipeline_core.flows.notation.gpu import Gpu, read_gpu
from pipeline_core.flows.notation.mounts import VolumeMount, merge, read_mounts
from pipeline_core.flows.notation.resources import (
    Amount,
    read_cpu,
    read_memory,
    read_node_selector,
    read_rdma,
)
from pipeline_core.flows.notation.site import Site
from pipeline_core.settings import settings
from pipeline_core.taskset.schema import MAX_BYTES
from pipeline_core.validation.errors import Path, ValidationErrors, join_path

T = TypeVar("T")

TEMPLATE = TEMPLATE_KEYS[0]
"""The field that errors in the template's own texts are reported at."""

_UNKNOWN_OUTPUT = "1"
"""Replaces a text that reads the output of a task while the output is unknown. The values made from it are not checked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedTask:
    """What a task needs to become a job. `start` is None for a task that runs nothing; `volume_mount` is the rendered text."""

    start: Start | None
    template_env: Mapping[str, str]
    env: Mapping[str, str]
    mounts: tuple[VolumeMount, ...]
    volume_mount: str
    node_selector: Mapping[str, str]
    cpu: Amount | None
    memory: Amount | None
    gpu: Gpu
    rdma: int


def global_env_values(flow: Flow, builtin: Mapping[str, Any], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The values of the keys of `global_env`, the same for all tasks of a run; a line may use the keys before it.

    `builtin` are `variables.builtin_values`; `given` replaces values, without being rendered. Raises NotationError, also as
    soon as all values together, which every task gets, take more than PIPELINE_RUN_MAX_BYTES in a run.
    """
    lines = read_lines(flow.global_env)
    if hidden := [name for name in lines if name in variables.NAMES]:
        raise NotationError(f"has {hidden[0]}, which is a variable's name already")
    if unknown := [name for name in given or {} if name not in lines]:
        raise NotationError(f"has no {unknown[0]}; there are {', '.join(lines) or 'none'}")
    copies, limit, size = 1 + len(flow.tasks), settings().run_max_bytes, 0
    values: dict[str, str] = {}
    known = ChainMap[str, Any](values, dict(builtin))
    for name, text in lines.items():
        try:
            values[name] = given[name] if given and name in given else variables.render(text, known)
        except NotationError as error:
            raise NotationError(f"{name} {error}") from None
        size += len(values[name].encode("utf-8", "surrogatepass"))
        if size * copies > limit:
            raise NotationError(
                f"takes more than {limit} bytes in a run, which stores it with the run and each of its {copies - 1} tasks, "
                f"once {name} is filled in; {limit // copies} bytes would be right (PIPELINE_RUN_MAX_BYTES)"
            )
    return values


def prepare(
    task: Task,
    template: Template,
    values: Mapping[str, Any],
    outputs: Mapping[str, str],
    creator: str,
    site: Site,
) -> PreparedTask:
    """Prepare a task. `values` are those of `variables.builtin_values` and of `global_env_values`, `outputs` those of its
    ancestors, by identity.

    Raises WrongParameter with all validation errors, by field.
    """
    problems = ValidationErrors()
    reader = _TaskReader(task, template, values, outputs, creator, site, problems, "")
    prepared = reader.read()
    problems.raise_any()
    if prepared is None:
        raise WrongParameter(f"The task {task.name} could not be made ready.")
    return prepared


def check(
    flow: Flow,
    task: Task,
    template: Template,
    values: Mapping[str, Any],
    creator: str,
    site: Site,
    problems: ValidationErrors,
    path: str,
) -> None:
    """Check a task of a flow against its template and the configuration; `values` are stand-ins."""
    own = ValidationErrors()
    reader = _TaskReader(task, template, values, None, creator, site, own, path)
    # Computed only for tasks that read outputs of others.
    ancestors = cache(lambda: flow.dag.ancestors(task.key))
    reader.readable = lambda other: _unreadable(flow, task, ancestors, other)
    reader.read()
    collect_errors(own.raise_any, problems)


def outputs_read(task: Task, template: Template, values: Mapping[str, Any], creator: str, site: Site) -> list[str]:
    """The tasks, by identity, whose output the task reads. `values` as for `check`."""
    found: set[str] = set()

    def readable(other: str) -> None:
        found.add(other)

    reader = _TaskReader(task, template, values, None, creator, site, ValidationErrors(), "")
    reader.readable = readable
    reader.read()
    return sorted(found)


def _unreadable(flow: Flow, task: Task, ancestors: Callable[[], frozenset[str]], other: str) -> str | None:
    if other in ancestors():
        return None
    if other not in flow.tasks:
        return f"reads the output of {other}, which is no task of the flow"
    return f"reads the output of {other}, but {task.name} does not depend on {other}"


class _TaskReader:
    """Reads the fields of one task one by one, and collects validation errors with their paths."""

    def __init__(
        self,
        task: Task,
        template: Template,
        values: Mapping[str, Any],
        outputs: Mapping[str, str] | None,
        creator: str,
        site: Site,
        problems: ValidationErrors,
        path: str,
    ) -> None:
        self.task, self.template, self.site, self.creator = task, template, site, creator
        self.values, self.outputs = values, outputs
        self.problems, self.path = problems, path
        self.readable: Callable[[str], str | None] = lambda other: None
        self.output_unknown = False
        self.left = MAX_BYTES

    def read(self) -> PreparedTask | None:
        """The prepared task; None after validation errors."""
        task, template, site = self.task, self.template, self.site
        cpu = self.field("resource_cpu", lambda: read_cpu(task.resource_cpu), None)
        memory = self.field("resource_memory", lambda: read_memory(task.resource_memory), None)
        gpu = self.field("resource_gpu", lambda: read_gpu(task.resource_gpu, site), Gpu(requests={}))
        rdma = self.field("resource_rdma", lambda: read_rdma(task.resource_rdma, site), 0)
        selector: Mapping[str, str] = self.field("node_selector", lambda: self.selector(gpu), {})
        nothing: tuple[str, tuple[VolumeMount, ...]] = "", ()
        text, own = self.field("volume_mount", lambda: self.mounts(task.volume_mount), nothing)
        _, others = self.field(TEMPLATE, lambda: self.mounts(template.volume), nothing)
        template_env: Mapping[str, str] = self.field(TEMPLATE, lambda: self.lines(template.env), {})
        env: Mapping[str, str] = self.field("env", lambda: self.lines(read_lines(task.env)), {})
        task_start = self.read_start()
        if self.problems:
            return None
        return PreparedTask(
            start=task_start,
            template_env=template_env,
            env=env,
            mounts=merge(own, others),
            volume_mount=text,
            node_selector=selector,
            cpu=cpu,
            memory=memory,
            gpu=gpu,
            rdma=rdma,
        )

    def field(self, name: str | Path, reader: Callable[[], T], default: T) -> T:
        """The result of the reader; `default` when it raises NotationError, which is collected."""
        self.output_unknown = False
        try:
            return reader()
        except NotationError as error:
            path = join_path(self.path, *([name] if isinstance(name, str) else name))
            self.problems.add(path, f"(task {self.task.name}) {error}")
            return default

    def render(self, text: str) -> str:
        tasks = variables.check(text, self.values)
        for other in tasks:
            if problem := self.readable(other):
                raise NotationError(problem)
        if tasks and self.outputs is None:
            self.output_unknown = True
            return _UNKNOWN_OUTPUT
        limit = min(self.left, variables.MAX_RENDERED)
        rendered = variables.render(text, self.values, self.outputs, limit)
        # All texts of a task go into one TaskSet, so that no more of them has to be filled in than fits into it.
        self.left -= len(rendered.encode("utf-8", "surrogatepass"))
        return rendered

    def render_all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.render(value)
        if isinstance(value, Mapping):
            return {key: self.render_all(inner) for key, inner in value.items()}
        return [self.render_all(inner) for inner in value] if isinstance(value, list) else value

    def lines(self, lines: Mapping[str, str]) -> Mapping[str, str]:
        return {name: self.render(text) for name, text in lines.items()}

    def selector(self, gpu: Gpu) -> Mapping[str, str]:
        selector = read_node_selector(self.task.node_selector)
        for key, value in gpu.node_selector.items():
            if selector.setdefault(key, value) != value:
                raise NotationError(f"asks for {key}={selector[key]}, and resource_gpu for {value}")
        return selector

    def mounts(self, text: str) -> tuple[str, tuple[VolumeMount, ...]]:
        rendered = self.render(text)
        return rendered, () if self.output_unknown else read_mounts(rendered, self.creator, self.site)

    def read_start(self) -> Start | None:
        task, template = self.task, self.template
        given, problems = fill_defaults(template.arguments, task.args)
        for name, problem in problems.items():
            self.problems.add(join_path(self.path, "args", name), f"(task {task.name}) {problem}")
        values = {name: self.argument(name, value) for name, value in given.items()}
        command = self.field("command", lambda: self.render(task.command), "")
        workdir = self.field("working_dir", lambda: self.render(task.working_dir), "")
        template_workdir = self.field(TEMPLATE, lambda: self.render(template.workdir), "")
        if template.behaviour is Behaviour.LOGICAL or self.problems:
            return None
        return self.field(
            TEMPLATE,
            lambda: start(template, values, command=command, workdir=workdir, template_workdir=template_workdir),
            None,
        )

    def argument(self, name: str, value: Any) -> Any:
        argument = self.template.arguments[name]

        def read() -> Any:
            rendered = self.render_all(value)
            return _UNKNOWN_OUTPUT if self.output_unknown else check_value(argument, rendered)

        return self.field(("args", name), read, None)
