"""What `--watch` prints about a run."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from pipeline_cli import render_flows
from pipeline_cli.exits import Exit
from pipeline_cli.output import Output
from pipeline_cli.run_progress import new_lines, watch


def task(name: str, state: str = "waiting", **fields: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "reason": "", **fields}


def run(state: str, *tasks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "r01", "state": state, "reason": "", "blockedBy": None, "tasks": list(tasks), **fields}


def new_line_words(payload: dict[str, Any], seen: dict[str, str]) -> list[list[str]]:
    return [line.plain.split() for line in new_lines(payload, seen)]


def test_only_changed_lines_are_printed() -> None:
    seen: dict[str, str] = {}
    assert new_line_words(run("running", task("a", "running"), task("b")), seen) == [
        ["running"],
        ["a", "running"],
        ["b", "waiting"],
    ]
    assert new_line_words(run("running", task("a", "running"), task("b")), seen) == []
    failed = task("a", "failed", reason="exit code 1")
    assert new_line_words(run("failed", failed, task("b")), seen) == [["failed"], ["a", "failed", "exit", "code", "1"]]


def test_a_blocked_run_says_by_which_one() -> None:
    assert new_line_words(run("blocked", blockedBy="r00"), {}) == [["blocked", "by", "r00"]]


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


class Service:
    """Gives one state of a run after the other, and the flow."""

    def __init__(self, *payloads: dict[str, Any]) -> None:
        self.payloads = list(payloads)

    def get(self, *path: str) -> SimpleNamespace:
        if path == ("v1", "flows", "f"):
            tasks = [{"job_templete": "logical", "name": name} for name in ("a", "b")]
            return SimpleNamespace(
                payload={"pipeline": {"name": "f", "dag_json": {"b": {"upstream": ["a"]}}}, "tasks": tasks}
            )
        return SimpleNamespace(payload=self.payloads.pop(0))


def test_on_a_terminal_the_tree_is_drawn_anew_until_the_run_has_ended() -> None:
    first = run("running", task("a", "running"), task("b"), flow="f")
    last = run("failed", task("a", "succeeded"), task("b", "failed"), flow="f")
    out = Output("table")
    out.console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=60)
    with pytest.raises(SystemExit) as ended:
        watch(cast("Any", Service(first, last)), out, "r01")
    assert ended.value.code == Exit.JOB_NOT_SUCCEEDED
    shown = out.console.file.getvalue()  # type: ignore[attr-defined]
    assert "├── a" not in shown
    assert "└── a  succeeded" in shown
    assert "    └── b  failed" in shown
    assert shown.rstrip().endswith("r01 failed")
