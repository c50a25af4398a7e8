"""What each stage makes of its plugins' answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from pipeline_core.plugins.types import FailurePolicy
from pipeline_core.stages import bind, decorate, gates, translate
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail, Stop, Suspend, TrailEntry, TrailOutcome
from pipeline_core.stages.stage import Stage
from tests.builders import taskset
from tests.unit.stages.conftest import HEADER, Plugins, plugin

Make = Callable[..., ClaimedStep]


def nothing(entries: list[TrailEntry]) -> None:
    """A lease that needs no renewal."""


def with_env(name: str, value: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def decorated(packet: dict[str, Any]) -> dict[str, Any]:
        document = copy.deepcopy(packet["job"])
        container = document["spec"]["roles"][0]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": name, "value": value}]
        return document

    return decorated


class TestTranslate:
    def translated(self, claim: Make, *registered: Any) -> Any:
        header = {**HEADER, "jobKind": "Echo"}
        return translate.run(claim(Stage.TRANSLATE, registered, {"kind": "Echo"}, kind="Echo", header=header))

    def test_a_taskset_needs_no_translator(self, plugins: Plugins, claim: Make) -> None:
        assert translate.run(claim(Stage.TRANSLATE, [plugin(Stage.TRANSLATE, "t")])) == Advance()
        assert plugins.asked == []

    def test_none_and_several_fail_the_job_and_are_named(self, plugins: Plugins, claim: Make) -> None:
        none = self.translated(claim)
        several = self.translated(claim, plugin(Stage.TRANSLATE, "t1"), plugin(Stage.TRANSLATE, "t2", 2))
        assert isinstance(none, Fail)
        assert isinstance(several, Fail)
        assert "none matches" in none.reason
        assert "several match: t1, t2" in several.reason

    def test_the_answer_gets_the_jobs_name(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers["t"] = taskset("echo hello")
        result = self.translated(claim, plugin(Stage.TRANSLATE, "t"))
        assert isinstance(result, Advance)
        assert result.taskset is not None
        assert result.taskset["metadata"] == {"name": "j0", "namespace": "default"}

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            ({"kind": "Pod"}, "kind"),
            (taskset(replicas=0), "spec.roles[0].replicas"),
            ({**taskset(), "metadata": {"namespace": "elsewhere"}}, 'metadata.namespace: "elsewhere" is not one of'),
        ],
    )
    def test_what_is_no_taskset_is_a_bad_answer_that_says_where(
        self, plugins: Plugins, claim: Make, answer: Any, words: str
    ) -> None:
        plugins.answers["t"] = answer
        result = self.translated(claim, plugin(Stage.TRANSLATE, "t"))
        assert isinstance(result, Fail)
        assert result.reason.startswith("t answered badly: ")
        assert words in result.reason

    def test_a_translator_cannot_be_ignored(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers["t"] = {"kind": "Pod"}
        result = self.translated(claim, plugin(Stage.TRANSLATE, "t", failure_policy=FailurePolicy.IGNORE))
        assert isinstance(result, Fail)


class TestGates:
    def test_gates_are_asked_in_order_and_each_answer_is_written_before_the_next(
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

    def test_after_a_stop_no_other_gate_is_asked(self, plugins: Plugins, claim: Make) -> None:
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
    def test_a_suspension_ends_as_its_gate_wishes(
        self, plugins: Plugins, claim: Make, answer: Any, seconds: float | None, on_timeout: str
    ) -> None:
        plugins.answers = {"a": {"decision": "suspend", **answer}}
        result = gates.run(claim(Stage.GATES, [plugin(Stage.GATES, "a")]), nothing)
        assert isinstance(result, Suspend)
        assert (result.plugin_key, result.seconds, result.on_timeout) == ("a", seconds, on_timeout)

    def test_a_gate_that_has_answered_is_not_asked_again_and_new_ones_are(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers = {"a": {"decision": "suspend"}}
        first = gates.run(claim(Stage.GATES, [plugin(Stage.GATES, "a", 2)]), nothing)
        assert isinstance(first, Suspend)
        plugins.answers = {"new": {"decision": "pass"}}
        plugins.asked.clear()
        both = [plugin(Stage.GATES, "new", 1), plugin(Stage.GATES, "a", 2)]
        assert isinstance(gates.run(claim(Stage.GATES, both, trail=first.trail), nothing), Advance)
        assert [key for key, _ in plugins.asked] == ["new"]


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


class TestBind:
    def test_without_a_binder_the_taskset_stays(self, claim: Make) -> None:
        assert bind.run(claim(Stage.BIND, [])) == Advance()

    def test_several_binders_fail_the_job(self, claim: Make) -> None:
        result = bind.run(claim(Stage.BIND, [plugin(Stage.BIND, "a"), plugin(Stage.BIND, "b", 2)]))
        assert isinstance(result, Fail)
        assert "several match: a, b" in result.reason

    def test_a_binder_may_name_the_scheduler(self, plugins: Plugins, claim: Make) -> None:
        def bound(packet: dict[str, Any]) -> dict[str, Any]:
            document = copy.deepcopy(packet["job"])
            document["spec"]["roles"][0]["template"]["spec"]["schedulerName"] = "volcano"
            return document

        plugins.answers["a"] = bound
        result = bind.run(claim(Stage.BIND, [plugin(Stage.BIND, "a")]))
        assert isinstance(result, Advance)
        assert result.taskset is not None
        assert result.taskset["spec"]["roles"][0]["template"]["spec"]["schedulerName"] == "volcano"
