"""`--watch`: shows the states of a run's tasks as they change, until the run has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from rich.live import Live
from rich.text import Text

from pipeline_cli import render, render_flows
from pipeline_cli.client import ServiceClient
from pipeline_cli.exits import Exit, Refused
from pipeline_cli.output import Output
from pipeline_cli.progress import LONGEST_PAUSE, SHORTEST_PAUSE, retry_while_unavailable
from pipeline_core.errors import PipelineError
from pipeline_core.flows.definition.flow import parse_stored
from pipeline_core.flows.states import RunState


def watch(service: ServiceClient, out: Output, run_id: str) -> None:
    """Shows a run's tasks until it has ended: on a terminal as a tree that is redrawn, else as a line for each change.

    Raises SystemExit unless the run succeeded.
    """
    try:
        show = watch_as_tree if out.console.is_terminal and not out.json else watch_as_lines
        payload = show(service, out, run_id)
    except KeyboardInterrupt:
        out.note(f"\n{run_id} goes on: `pipeline run {run_id}` shows it, `pipeline runs stop {run_id}` stops it")
        raise
    out.show(payload, render_flows.ending)
    if payload["state"] != RunState.SUCCEEDED:
        raise SystemExit(Exit.JOB_NOT_SUCCEEDED)


def watch_as_tree(service: ServiceClient, out: Output, run_id: str) -> render.Record:
    upstream: Mapping[str, Sequence[str]] | None = None
    payload: render.Record = {}
    with Live(console=out.console, auto_refresh=False) as live:
        for payload in poll(service, run_id):
            if upstream is None:
                upstream = upstream_of(service, payload)
            live.update(render_flows.tree(payload, upstream), refresh=True)
    return payload


def watch_as_lines(service: ServiceClient, out: Output, run_id: str) -> render.Record:
    payload: render.Record = {}
    seen: dict[str, str] = {}
    for payload in poll(service, run_id):
        for line in new_lines(payload, seen):
            out.progress(Text.assemble((f"{datetime.now(UTC):%H:%M:%SZ}  ", "dim"), line))
    return payload


def poll(service: ServiceClient, run_id: str) -> Iterator[render.Record]:
    """Polls a run's detail; the last one is that of the ended run."""
    before, pause = None, SHORTEST_PAUSE
    while True:
        payload = retry_while_unavailable(lambda: service.get("v1", "runs", run_id)).payload
        yield payload
        if RunState(payload["state"]).final:
            return
        pause = SHORTEST_PAUSE if payload != before else min(pause * 1.5, LONGEST_PAUSE)
        before = payload
        time.sleep(pause)


def new_lines(payload: render.Record, seen: dict[str, str]) -> Iterator[Text]:
    """A line for the run and each task whose line differs from the one in `seen`; updates `seen`."""
    lines = {"": Text.assemble(render.cell(payload["state"]), why(payload))}
    lines |= {task["name"]: Text("  ") + render_flows.task_line(task) for task in payload.get("tasks") or []}
    for name, line in lines.items():
        if seen.get(name) != line.plain:
            seen[name] = line.plain
            yield line


def why(payload: render.Record) -> str:
    blocked = f"by {payload['blockedBy']}" if payload.get("blockedBy") else ""
    return "".join(f"  {render.plain(text)}" for text in (blocked, payload.get("reason")) if text)


def upstream_of(service: ServiceClient, payload: render.Record) -> Mapping[str, Sequence[str]]:
    """Each task's upstream tasks by name, from the flow's present document; empty when it was deleted or does not fit."""
    with suppress(Refused, PipelineError):
        flow = parse_stored(retry_while_unavailable(lambda: service.get("v1", "flows", payload["flow"])).payload)
        names = {key: task.name for key, task in flow.tasks.items()}
        return {names[key]: [names[before] for before in upstream] for key, upstream in flow.dag.upstream.items()}
    return {}
