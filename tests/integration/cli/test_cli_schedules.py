"""The commands of schedules and backfills, against a service with prepared answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from click.testing import Result

from tests.integration.cli.conftest import Stub

Pipeline = Callable[..., Result]
Flow = Callable[..., Result]

STANDS = {
    "flow": "sales",
    "paused": True,
    "cron": "0 6 * * *",
    "timezone": "Asia/Shanghai",
    "catchup": True,
    "since": "2026-03-01T00:00:00Z",
    "next": ["2026-03-04T22:00:00Z", "2026-03-05T22:00:00Z"],
    "missed": {"count": 3, "exact": True, "first": ["2026-03-01T22:00:00Z"]},
    "fault": "",
}
SUMMARY = {
    "id": "b1",
    "flow": "sales",
    "timezone": "Asia/Shanghai",
    "state": "failed",
    "reason": "the run r1 has failed",
    "stopOnFailure": True,
    "runner": "ada",
    "from": "2026-03-01T22:00:00Z",
    "to": "2026-03-02T22:00:00Z",
    "total": 2,
    "made": 1,
    "createdAt": "2026-03-05T00:00:00Z",
    "finishedAt": None,
}
POINTS = [
    {"point": "2026-03-01T22:00:00Z", "runID": "r1", "state": "failed"},
    {"point": "2026-03-02T22:00:00Z", "runID": None, "state": "waiting"},
]


@pytest.fixture
def flow(pipeline: Pipeline) -> Flow:
    """Runs the commands of one flow against the stub."""
    return partial(pipeline, "flow")


def test_a_schedule_is_shown_with_what_comes_and_what_was_missed(stub: Stub, flow: Flow) -> None:
    stub.answer("GET", "/v1/flows/sales/schedule", STANDS)
    shown = flow("schedule", "sales", "--count", "2")
    assert shown.exit_code == 0
    assert stub.asked[0].query == {"count": "2"}
    lines = [line.strip() for line in shown.stdout.splitlines()]
    assert "missed    3, the first at 2026-03-02 06:00:00+08:00" in lines
    assert lines[-2:] == ["2026-03-05 06:00:00+08:00", "2026-03-06 06:00:00+08:00"]
    assert json.loads(flow("schedule", "sales", "--output", "json").stdout) == STANDS


def test_a_flow_without_a_schedule_says_so(stub: Stub, flow: Flow) -> None:
    nothing = {"cron": None, "timezone": "UTC", "next": [], "missed": {"count": 0, "exact": True, "first": []}}
    stub.answer("GET", "/v1/flows/sales/schedule", {**STANDS, **nothing, "paused": False})
    assert "none" in flow("schedule", "sales").stdout


@pytest.mark.parametrize(
    ("words", "body", "says"),
    [
        (["pause", "sales"], {"paused": True}, "sales is paused"),
        (["resume", "sales"], {"paused": False, "replay": False}, "sales goes on; next at 2026-03-05 06:00:00+08:00"),
        (
            ["resume", "sales", "--replay"],
            {"paused": False, "replay": True},
            "; 3, the first at 2026-03-02 06:00:00+08:00 made up",
        ),
    ],
)
def test_a_schedule_is_paused_and_resumed(
    stub: Stub, flow: Flow, words: list[str], body: dict[str, Any], says: str
) -> None:
    stub.answer("PUT", "/v1/flows/sales/schedule", STANDS)
    done = flow(*words)
    assert (done.exit_code, stub.asked[0].body) == (0, body)
    assert says in done.stdout


def test_a_backfill_is_planned_and_begun(stub: Stub, flow: Flow) -> None:
    plan: dict[str, Any] = {
        "points": ["2026-03-02T22:00:00Z"],
        "leftOut": [{"point": "2026-03-01T22:00:00Z", "runID": "r1", "state": "succeeded"}],
        "timezone": "Asia/Shanghai",
    }
    stub.answer("POST", "/v1/flows/sales/backfill", plan)
    stub.answer("POST", "/v1/flows/sales/backfill", {**plan, "backfillID": "b1"})
    span = ["--from", "2026-03-02 06:00:00", "--to", "2026-03-03 06:00:00"]
    dry = flow("backfill", "sales", *span, "--dry-run")
    lines = [line.split() for line in dry.stdout.splitlines()]
    assert lines[1:] == [
        ["2026-03-02", "06:00:00+08:00", "r1", "succeeded"],
        ["2026-03-03", "06:00:00+08:00"],
        ["1", "points", "would", "be", "run"],
    ]
    begun = flow("backfill", "sales", *span, "--stop-on-failure")
    assert begun.stdout.splitlines()[-1] == "b1"
    sent = {"from": "2026-03-02 06:00:00", "to": "2026-03-03 06:00:00"}
    assert [asked.body for asked in stub.asked] == [
        {**sent, "dryRun": True, "stopOnFailure": False},
        {**sent, "dryRun": False, "stopOnFailure": True},
    ]


def test_backfills_are_listed_and_shown(stub: Stub, pipeline: Pipeline, flow: Flow) -> None:
    stub.answer("GET", "/v1/flows/sales/backfills", [SUMMARY], headers={"X-Total-Count": "1"})
    stub.answer("GET", "/v1/backfills/b1", {**SUMMARY, "points": POINTS})
    assert "the run r1 has failed" in flow("backfills", "sales").stdout
    shown = pipeline("backfill", "show", "b1").stdout.splitlines()
    assert [line.split() for line in shown[-2:]] == [
        ["2026-03-02", "06:00:00+08:00", "r1", "failed"],
        ["2026-03-03", "06:00:00+08:00", "waiting"],
    ]


@pytest.mark.parametrize(("word", "state"), [("stop", "stopped"), ("resume", "running")])
def test_a_backfill_is_stopped_and_resumed(stub: Stub, pipeline: Pipeline, word: str, state: str) -> None:
    stub.answer("PUT", "/v1/backfills/b1", {**SUMMARY, "state": state, "points": POINTS})
    done = pipeline("backfill", word, "b1")
    assert (done.stdout, stub.asked[0].body) == (f"b1 is {state}\n", {"action": word})
