"""What the decorators' answers make of a TaskSet."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pipeline_core.plugins.types import FailurePolicy
from pipeline_core.stages import decorate
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail, Suspend, TrailOutcome
from tests.builders import taskset
from tests.unit.stages.conftest import Plugins, plugin

Make = Callable[..., ClaimedStep]


def with_env(name: str, value: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def decorated(packet: dict[str, Any]) -> dict[str, Any]:
        document = copy.deepcopy(packet["job"])
        container = document["spec"]["roles"][0]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": name, "value": value}]
        return document

    return decorated


class TestDecorate:
    def test_what_decorators_add_is_merged_in_sequence_order(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers = {"a": with_env("A", "1"), "b": with_env("B", "2")}
        two = [plugin(Stage.DECORATE, "b", 2), plugin(Stage.DECORATE, "a", 1)]
        result = decorate.run(claim(Stage.DECORATE, two))
        assert isinstance(result, Advance)
        assert result.taskset is not None
        container = result.taskset["spec"]["roles"][0]["template"]["spec"]["containers"][0]
        assert [variable["name"] for variable in container["env"]] == ["A", "B"]
        assert all(entry.patch for entry in result.trail)

    def test_a_conflict_names_both_and_the_path(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers = {"a": with_env("A", "1"), "b": with_env("A", "2")}
        result = decorate.run(claim(Stage.DECORATE, [plugin(Stage.DECORATE, "a"), plugin(Stage.DECORATE, "b", 2)]))
        assert isinstance(result, Fail)
        for words in ("a", "b", "env"):
            assert words in result.reason

    def test_what_was_answered_before_an_interruption_counts(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers = {"a": with_env("A", "1"), "b": {"kind": "Pod"}}
        both = [plugin(Stage.DECORATE, "a"), plugin(Stage.DECORATE, "b", 2, failure_policy=FailurePolicy.SUSPEND)]
        parked = decorate.run(claim(Stage.DECORATE, both))
        assert isinstance(parked, Suspend)
        plugins.answers = {"b": with_env("B", "2")}
        done = decorate.run(claim(Stage.DECORATE, both, trail=parked.trail))
        assert isinstance(done, Advance)
        assert done.taskset is not None
        container = done.taskset["spec"]["roles"][0]["template"]["spec"]["containers"][0]
        assert [variable["name"] for variable in container["env"]] == ["A", "B"]

    def test_a_change_that_is_not_additive_is_a_bad_answer(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers = {"a": lambda packet: taskset("something else")}
        result = decorate.run(claim(Stage.DECORATE, [plugin(Stage.DECORATE, "a")]))
        assert isinstance(result, Fail)
        assert "a answered badly" in result.reason
        assert result.trail[0].outcome is TrailOutcome.FAILED
