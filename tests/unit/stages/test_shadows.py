"""Shadows: which are asked about a stage, and when they agree."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pipeline_core.features.snapshot import RegisteredPlugin
from pipeline_core.plugins.errors import CallFailed, CircuitOpen, ConcurrencyLimit
from pipeline_core.plugins.packet import Packet
from pipeline_core.plugins.types import Mode, PluginType
from pipeline_core.stages import shadows
from pipeline_core.stages.calls import settled_calls
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import (
    Advance,
    ClaimedStep,
    Crash,
    Fail,
    Outcome,
    Postpone,
    Stop,
    Suspend,
    TrailEntry,
    TrailOutcome,
)
from tests.unit.stages.conftest import plugin

Claim = Callable[..., ClaimedStep]
NOW = datetime(2026, 3, 1, tzinfo=UTC)
GATE = PluginType.ACCESS_GATE


def shadow(stage: Stage, name: str, of: str = "") -> RegisteredPlugin:
    return plugin(stage, name, mode=Mode.SHADOW, shadow_of=of)


def call(key: str, outcome: TrailOutcome = TrailOutcome.ANSWERED, **fields: Any) -> TrailEntry:
    return TrailEntry(plugin_key=key, outcome=outcome, started_at=NOW, **fields)


def keys(step: ClaimedStep, outcome: Outcome) -> list[str]:
    return [key for key, _ in shadows.due(step, outcome)]


@pytest.mark.parametrize(
    ("outcome", "asked"),
    [
        (Advance(), ["s"]),
        (Stop(trail=[call("a")], reason="no"), ["s"]),
        (Fail(trail=[], reason="no"), ["s"]),
        (Postpone(reason="later", seconds=1), []),
        (Crash(reason="later", seconds=1), []),
    ],
)
def test_shadows_are_asked_once_their_stage_is_decided(claim: Claim, outcome: Outcome, asked: list[str]) -> None:
    step = claim(Stage.GATES, [plugin(Stage.GATES, "a"), shadow(Stage.GATES, "s", "a"), shadow(Stage.BIND, "b")])
    assert keys(step, outcome) == asked


def test_nothing_is_asked_where_there_is_no_shadow(claim: Claim) -> None:
    assert shadows.due(claim(Stage.GATES, [plugin(Stage.GATES, "a")]), Advance()) == ()


def test_stages_that_were_skipped_before_are_asked_about_with_the_next(claim: Claim) -> None:
    registered = [
        shadow(Stage.TRANSLATE, "t"),
        shadow(Stage.FACTORS, "f"),
        plugin(Stage.GATES, "a"),
        shadow(Stage.DECORATE, "d"),
    ]
    step = claim(Stage.GATES, registered)
    assert shadows.due(step, Advance()) == (("f", ("j0", "factors", "")),), "a TaskSet is not translated"
    assert keys(claim(Stage.LAUNCH, registered), Advance()) == ["d"]


def test_of_a_suspended_job_those_are_asked_whose_gate_has_decided(claim: Claim) -> None:
    gates = [plugin(Stage.GATES, name, position) for position, name in enumerate("abc")]
    asked = [shadow(Stage.GATES, f"s{name}", name) for name in "abc"]
    step = claim(Stage.GATES, [*gates, *asked, shadow(Stage.GATES, "none")])
    assert keys(step, Suspend(trail=[call("b")], plugin_key="b", reason="")) == ["sa", "sb"]
    unreachable = Suspend(trail=[call("b", TrailOutcome.SUSPENDED)], plugin_key="b", reason="")
    assert keys(step, unreachable) == ["sa"]


def test_who_took_part_before_a_promotion_is_not_asked_as_a_shadow(claim: Claim) -> None:
    step = claim(Stage.GATES, [plugin(Stage.GATES, "new"), shadow(Stage.GATES, "old", "new")], trail=[call("old")])
    assert keys(step, Advance()) == []
    assert settled_calls(step)["new"].plugin_key == "old", "its answer stands in the place that the other one took"


@pytest.mark.parametrize(
    ("type", "decided", "answered", "agrees"),
    [
        (GATE, call("a", decision="pass", reason="x"), call("s", decision="pass", reason="y"), True),
        (GATE, call("a", decision="pass"), call("s", decision="stop"), False),
        (GATE, None, call("s", decision="stop"), None),
        (GATE, call("a", TrailOutcome.IGNORED), call("s", decision="stop"), None),
        (GATE, call("a", decision="pass"), call("s", TrailOutcome.FAILED), None),
        (
            PluginType.FACTOR_GENERATOR,
            call("a", factors=[{"topic": "t", "advice": 1, "reason": "x"}]),
            call("s", factors=[{"topic": "t", "advice": 1, "reason": ""}]),
            True,
        ),
        (
            PluginType.FACTOR_GENERATOR,
            call("a", factors=[{"topic": "t", "advice": 1}]),
            call("s", factors=[{"topic": "t", "advice": 2}]),
            False,
        ),
        (PluginType.TEMPLATE_DECORATOR, call("a", patch=[{"op": "add"}]), call("s", patch=[{"op": "add"}]), True),
        (PluginType.TEMPLATE_DECORATOR, call("a", patch=[{"op": "add"}]), call("s", patch=[]), False),
        (PluginType.TEMPLATE_DECORATOR, call("a", patch=None), call("s", patch=[]), True),
        (PluginType.TEMPLATE_TRANSLATOR, call("a", TrailOutcome.REJECTED), call("s", patch=[]), False),
        (PluginType.TEMPLATE_TRANSLATOR, call("a", TrailOutcome.REJECTED), call("s", TrailOutcome.REJECTED), True),
    ],
)
def test_what_agrees(type: PluginType, decided: TrailEntry | None, answered: TrailEntry, agrees: bool | None) -> None:
    assert shadows.agrees(type, decided, answered) is agrees


def test_what_a_shadow_is_compared_with() -> None:
    calls = [call("a"), call("b"), call("a"), call("a", TrailOutcome.ASK_AGAIN), call("", TrailOutcome.RESUMED)]
    assert shadows.deciding(GATE, calls, "a") == 2
    assert shadows.deciding(GATE, calls[:2], "") == 1
    assert shadows.deciding(GATE, calls, "c") is None
    assert shadows.deciding(PluginType.FACTOR_GENERATOR, calls, "") is None


@pytest.mark.parametrize("refused", [CircuitOpen("it is left alone"), ConcurrencyLimit("full")])
def test_a_call_that_was_made_has_failed_although_the_next_attempt_is_refused(
    monkeypatch: pytest.MonkeyPatch, refused: CallFailed
) -> None:
    client = SimpleNamespace(call=Mock(side_effect=refused))
    monkeypatch.setattr(shadows, "shadow_client", lambda: client)
    asked = (shadow(Stage.GATES, "s", "a"), "j1", Stage.GATES, Packet({}, {}, {}), "default", "r1")
    with pytest.raises(type(refused)):
        shadows.ask(*asked)
    refused.attempts = 2
    entry = shadows.ask(*asked)
    assert (entry.outcome, entry.attempts, entry.reason) == (TrailOutcome.FAILED, 2, refused.cause)
