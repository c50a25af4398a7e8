"""Renders the answers of `explain` and `feature what-if`: which plugins run, and what the conditions of their selectors found."""

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


def what_if(payload: Record) -> Iterator[Any]:
    """How many stored jobs each plugin would take part in, by day, kind and user."""
    limited = "" if payload.get("complete") else ", the latest; there are more"
    yield key_values({"jobs looked at": f"{payload.get('jobs', 0):,}{limited}"})
    for plugin in payload.get("plugins") or []:
        yield Text()
        rows: list[list[Any]] = [[plain(plugin.get("pluginType")), "all", *_change(plugin)]]
        for title, name in (("byDay", "day"), ("byKind", "kind"), ("byUser", "userID")):
            rows += [["", f"{name} {plain(group.get(name))}", *_change(group)] for group in plugin.get(title) or []]
        yield table(["PLUGIN", "JOBS", "MATCHED", "GAINED", "LOST"], rows)
        named = {"gained": plugin.get("gainedJobs"), "lost": plugin.get("lostJobs")}
        yield key_values({name: ", ".join(map(plain, ids)) for name, ids in named.items() if ids})
        if explained := plugin.get("explanation"):
            yield key_values({"matched": explained.get("matched"), "when": explained.get("expression") or "*"})
            yield from (Text(f"  {condition(value)}") for value in explained.get("conditions") or [])


def _change(change: Record) -> list[Any]:
    return [change.get("matched"), change.get("gained"), change.get("lost")]


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
