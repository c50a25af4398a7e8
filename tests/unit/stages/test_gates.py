"""What the gates' answers make of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline_core.plugins.types import Resumer
from pipeline_core.stages import gates
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Stop, Suspend, TrailEntry
from tests.unit.stages.conftest import Plugins, plugin

Make = Callable[..., ClaimedStep]


def nothing(entries: list[TrailEntry]) -> None:
    """A lease that needs no renewal."""


class TestGates:
    def test_gates_are_called_in_order_and_each_answer_is_written_before_the_next_call(
        self, plugins: Plugins, claim: Make
    ) -> None:
        written: list[str] = []
        plugins.answers = {"a": {"decision": "pass"}, "b": {"decision": "pass"}}
        three = [plugin(Stage.GATES, "b", 2), plugin(Stage.GATES, "a", 1)]
        result = gates.run(claim(Stage.GATES, three), lambda entries: written.extend(e.plugin_key for e in entries))
        assert isinstance(result, Advance)
        assert [key for key, _ in plugins.asked] == ["a", "b"]
        assert written == ["a"]
        assert [entry.plugin_key for entry in result.trail] == ["b"]

    def test_after_a_stop_no_other_gate_is_called(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers = {"a": {"decision": "stop", "reason": "no budget"}}
        result = gates.run(claim(Stage.GATES, [plugin(Stage.GATES, "a"), plugin(Stage.GATES, "b", 2)]), nothing)
        assert isinstance(result, Stop)
        assert result.reason == "no budget"

    @pytest.mark.parametrize(
        ("answer", "seconds", "on_timeout"),
        [
            ({}, None, ""),
            ({"suspendForSeconds": 60}, 60, "stop"),
            ({"suspendForSeconds": 60, "onTimeout": "resume"}, 60, "resume"),
            ({"askAgainAfterSeconds": 5}, 5, "ask"),
        ],
    )
    def test_a_suspension_times_out_as_its_gate_requested(
        self, plugins: Plugins, claim: Make, answer: Any, seconds: float | None, on_timeout: str
    ) -> None:
        plugins.answers = {"a": {"decision": "suspend", **answer}}
        result = gates.run(claim(Stage.GATES, [plugin(Stage.GATES, "a")]), nothing)
        assert isinstance(result, Suspend)
        assert (result.plugin_key, result.seconds, result.on_timeout) == ("a", seconds, on_timeout)

    @pytest.mark.parametrize("resumer", Resumer)
    def test_a_suspension_remembers_who_may_resume_past_its_gate(
        self, plugins: Plugins, claim: Make, resumer: Resumer
    ) -> None:
        plugins.answers = {"a": {"decision": "suspend"}}
        result = gates.run(claim(Stage.GATES, [plugin(Stage.GATES, "a", resumer=resumer)]), nothing)
        assert isinstance(result, Suspend)
        assert result.resumer is resumer

    def test_a_gate_that_has_answered_is_not_called_again_and_new_gates_are(
        self, plugins: Plugins, claim: Make
    ) -> None:
        plugins.answers = {"a": {"decision": "suspend"}}
        first = gates.run(claim(Stage.GATES, [plugin(Stage.GATES, "a", 2)]), nothing)
        assert isinstance(first, Suspend)
        plugins.answers = {"new": {"decision": "pass"}}
        plugins.asked.clear()
        both = [plugin(Stage.GATES, "new", 1), plugin(Stage.GATES, "a", 2)]
        assert isinstance(gates.run(claim(Stage.GATES, both, trail=first.trail), nothing), Advance)
        assert [key for key, _ in plugins.asked] == ["new"]
