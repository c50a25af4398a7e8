"""A run's tasks, shown as they go on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from rich.live import Live
from rich.text import Text

from pipeline_cli import render, render_flows
from pipeline_cli.client import Client
from pipeline_cli.exits import Exit, Refused
from pipeline_cli.output import Output
from pipeline_cli.progress import LONGEST_PAUSE, SHORTEST_PAUSE, patiently
from pipeline_core.errors import PipelineError
from pipeline_core.flows.definition.flow import parse_stored
from pipeline_core.flows.states import RunState


def watch(service: Client, out: Output, run_id: str) -> None:
    """Shows a run's tasks until it has ended: as a tree that is drawn anew on a terminal, else a line for each change.

    Raises SystemExit unless the run succeeded.
    """
    try:
        show = drawn if out.console.is_terminal and not out.json else told
        payload = show(service, out, run_id)
    except KeyboardInterrupt:
        out.note(f"\n{run_id} goes on: `pipeline run {run_id}` shows it, `pipeline runs stop {run_id}` stops it")
        raise
    out.show(payload, render_flows.ending)
    if payload["state"] != RunState.SUCCEEDED:
        raise SystemExit(Exit.JOB_NOT_SUCCEEDED)


def drawn(service: Client, out: Output, run_id: str) -> render.Record:
    upstream: Mapping[str, Sequence[str]] | None = None
    payload: render.Record = {}
    with Live(console=out.console, auto_refresh=False) as live:
        for payload in followed(service, run_id):
            if upstream is None:
                upstream = upstream_of(service, payload)
            live.update(render_flows.tree(payload, upstream), refresh=True)
    return payload


def told(service: Client, out: Output, run_id: str) -> render.Record:
    payload: render.Record = {}
    seen: dict[str, str] = {}
    for payload in followed(service, run_id):
        for line in news(payload, seen):
            out.tell(line)
    return payload


def followed(service: Client, run_id: str) -> Iterator[render.Record]:
    """A run as it stands, again and again, for the last time when it has ended."""
    before, pause = None, SHORTEST_PAUSE
    while True:
        payload = patiently(lambda: service.get("v1", "runs", run_id)).payload
        yield payload
        if RunState(payload["state"]).final:
            return
        pause = SHORTEST_PAUSE if payload != before else min(pause * 1.5, LONGEST_PAUSE)
        before = payload
        time.sleep(pause)


def news(payload: render.Record, seen: dict[str, str]) -> Iterator[Text]:
    """A line for the run and each task that is told otherwise than was `seen`, which is brought up to date."""
    lines = {"": Text.assemble(render.cell(payload["state"]), why(payload))}
    lines |= {task["name"]: Text("  ") + render_flows.task_line(task) for task in payload.get("tasks") or []}
    for name, line in lines.items():
        if seen.get(name) != line.plain:
            seen[name] = line.plain
            yield line


def why(payload: render.Record) -> str:
    blocked = f"by {payload['blockedBy']}" if payload.get("blockedBy") else ""
    return "".join(f"  {render.plain(text)}" for text in (blocked, payload.get("reason")) if text)


def upstream_of(service: Client, payload: render.Record) -> Mapping[str, Sequence[str]]:
    """By the names of tasks, what each waits for, as the flow has it now; nothing when it is gone or has changed."""
    with suppress(Refused, PipelineError):
        flow = parse_stored(patiently(lambda: service.get("v1", "flows", payload["flow"])).payload)
        names = {key: task.name for key, task in flow.tasks.items()}
        return {names[key]: [names[before] for before in upstream] for key, upstream in flow.dag.upstream.items()}
    return {}
