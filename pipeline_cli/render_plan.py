"""Renders the answer of `explain`: which plugins run, and what the conditions of their selectors found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from pipeline_cli.render import Record, key_values, plain, table


def plan(payload: Record) -> Iterator[Any]:
    """The stages in order with their outcomes, then a table of the plugins and LifeHooks with all conditions."""
    stages = payload["stages"]
    yield key_values({"namespace": payload.get("namespace"), "TaskSet check": payload.get("tasksetCheck")})
    yield Text()
    yield table(["STAGE", "WHAT HAPPENS"], [[stage["stage"], outcome(stage)] for stage in stages])
    rows = [row(stage["stage"], plugin) for stage in stages for plugin in stage["plugins"]]
    rows += [row("hooks", hook) for hook in payload.get("lifeHooks") or []]
    if rows:
        yield Text()
        yield plugins(rows)


def outcome(stage: Record) -> Text:
    style = "red" if stage.get("fails") else "" if stage.get("reached", True) else "dim"
    return Text(plain(stage.get("outcome")), style=style)


def plugins(rows: Sequence[Sequence[Any]]) -> Table:
    return table(["STAGE", "#", "PLUGIN", "RUNS", "WHY NOT", "WHEN", "CONDITIONS"], rows)


def row(stage: str, plugin: Record) -> list[Any]:
    selector = plugin.get("selector") or {}
    return [
        stage,
        plugin.get("sequence"),
        plugin.get("key"),
        runs(plugin),
        plugin.get("reason") or "",
        selector.get("expression") or "*",
        "; ".join(condition(value) for value in selector.get("conditions") or []),
    ]


def runs(plugin: Record) -> Text:
    """Whether a plugin runs; for a LifeHook, the states whose events it is sent."""
    if not plugin.get("runs"):
        return Text("no", style="yellow" if plugin.get("enabled") else "dim")
    return Text(", ".join(map(plain, plugin.get("states") or ["yes"])), style="green")


def condition(value: Record) -> str:
    """One condition with what was found: `debug: yes, type is "batch", expected /^deb/`."""
    expected = "some text" if value.get("expect") is None else plain(value["expect"])
    found = f'{plain(value.get("key"))} is "{plain(value.get("found"))}"'
    return f"{plain(value.get('name'))}: {plain(value.get('matched'))}, {found}, expected {expected}"
