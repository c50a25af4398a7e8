"""What is told of a run as it goes on."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from api.cli import render_flows
from api.cli.run_progress import news


def task(name: str, state: str = "waiting", **fields: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "reason": "", **fields}


def run(state: str, *tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "r01", "state": state, "reason": "", "blockedBy": None, "tasks": list(tasks), **fields}


def told(payload: dict[str, Any], seen: dict[str, str]) -> list[list[str]]:
    return [line.plain.split() for line in news(payload, seen)]


def test_only_what_has_changed_is_told() -> None:
    seen: dict[str, str] = {}
    assert told(run("running", task("a", "running"), task("b")), seen) == [
        ["running"],
        ["a", "running"],
        ["b", "waiting"],
    ]
    assert told(run("running", task("a", "running"), task("b")), seen) == []
    failed = task("a", "failed", reason="exit code 1")
    assert told(run("failed", failed, task("b")), seen) == [["failed"], ["a", "failed", "exit", "code", "1"]]


def test_a_blocked_run_says_by_which_one() -> None:
    assert told(run("blocked", blockedBy="r00"), {}) == [["blocked", "by", "r00"]]


def test_a_tree_has_each_task_once_below_the_last_that_it_waits_for() -> None:
    payload = run("running", task("a", "succeeded"), task("b", "running"), task("c"), task("d"), task("x"))
    upstream = {"b": ["a"], "c": ["a"], "d": ["b", "c"], "x": ["gone"]}
    console = Console(width=80, record=True)
    with console.capture() as capture:
        console.print(render_flows.tree(payload, upstream))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert lines == [
        "r01  running",
        "├── a  succeeded",
        "│   ├── b  running",
        "│   └── c  waiting",
        "│       └── d  waiting  (after b too)",
        "└── x  waiting",
    ]
