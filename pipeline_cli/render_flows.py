"""Renders flows, templates and runs: pure functions, as those of `render`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pipeline_cli.render import STYLES, Record, brief, cell, document, key_values, plain, table, timestamp


def imported(name: str, *, paused: bool = False) -> Text:
    resume = f"; its schedule is paused: pipeline flow resume {plain(name)}" if paused else ""
    return Text(f"{plain(name)} imported{resume}")


def flows(payload: Sequence[Record]) -> Iterator[Table]:
    yield table(
        ["FLOW", "CREATOR", "TASKS", "SCHEDULE", "NEXT", "DESCRIPTION"],
        [
            [
                flow.get("name"),
                brief(flow.get("creator")),
                flow.get("tasks"),
                flow.get("schedule") or "",
                next_run(flow),
                flow.get("describe") or "",
            ]
            for flow in payload
        ],
    )


def next_run(flow: Record) -> str:
    if flow.get("paused"):
        return "paused"
    if flow.get("fault"):
        return "at fault"
    return timestamp(flow["nextAt"]) if flow.get("nextAt") else ""


def entry(payload: Any) -> Iterator[Text]:
    yield from document(payload)


def templates(payload: Mapping[str, Record]) -> Iterator[Table]:
    yield table(
        ["TEMPLATE", "IMAGE", "DESCRIPTION"],
        [
            [name, template.get("image_name") or "", template.get("job_template_describe") or ""]
            for name, template in payload.items()
        ],
    )


def runs(payload: Sequence[Record]) -> Iterator[Table]:
    yield table(
        ["RUN", "FLOW", "TRIGGER", "DATE", "RUNNER", "STATE", "STARTED", "FINISHED", "REASON"],
        [
            [
                *(run.get(field) for field in ("id", "flow", "trigger")),
                timestamp(run.get("executionDate")),
                *(run.get(field) for field in ("runner", "state")),
                timestamp(run.get("startAt")),
                timestamp(run.get("finishedAt")),
                run.get("reason") or (f"blocked by {run['blockedBy']}" if run.get("blockedBy") else ""),
            ]
            for run in payload
        ],
    )


def run(payload: Record) -> Iterator[Any]:
    times = {"date": "executionDate", "created": "createdAt", "started": "startAt", "finished": "finishedAt"}
    yield key_values(
        {"run": payload.get("id")}
        | {field: payload.get(field) for field in ("flow", "trigger", "runner", "state", "reason")}
        | {"blocked by": payload.get("blockedBy")}
        | {name: timestamp(payload[field]) for name, field in times.items() if payload.get(field)}
    )
    yield Text()
    yield table(
        ["TASK", "STATE", "JOB", "TRY", "STARTED", "FINISHED", "REASON"],
        [
            [
                *(task.get(field) for field in ("name", "state")),
                task.get("jobID") or "",
                task.get("attempt"),
                timestamp(task.get("startAt")),
                timestamp(task.get("finishedAt")),
                task.get("reason") or "",
            ]
            for task in payload.get("tasks") or []
        ],
    )


def task_line(task: Record) -> Text:
    """A task with its state, and the reason for it if there is one."""
    state = plain(task.get("state"))
    reason = f"  {plain(task['reason'])}" if task.get("reason") else ""
    return Text.assemble(f"{plain(task.get('name'))}  ", (state, STYLES.get(state, "")), (reason, "dim"))


def ending(payload: Record) -> Iterator[Text]:
    """How a run ended, in one line."""
    reason = f": {plain(payload['reason'])}" if payload.get("reason") else ""
    yield Text.assemble(f"{plain(payload.get('id'))} ", cell(payload.get("state")), reason)


def tree(payload: Record, upstream: Mapping[str, Sequence[str]]) -> Tree:
    """A run's tasks as a tree, each below the last of its upstream tasks; the line names the other upstream tasks."""
    root = Tree(Text.assemble(f"{plain(payload.get('id'))}  ", cell(payload.get("state"))))
    branches: dict[str, Tree] = {}
    for task in payload.get("tasks") or []:
        before = [name for name in upstream.get(task["name"], ()) if name in branches]
        line = task_line(task)
        if len(before) > 1:
            line.append(f"  (after {', '.join(map(plain, before[:-1]))} too)", style="dim")
        branches[task["name"]] = (branches[before[-1]] if before else root).add(line)
    return root
