"""Unavailable plugins, failure policies, and which plugins are not called again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline_core.common.clock import now
from pipeline_core.plugins.errors import BadAnswer, ConcurrencyLimit, PluginUnavailable
from pipeline_core.plugins.types import FailurePolicy
from pipeline_core.stages import decorate, factors, gates
from pipeline_core.stages.calls import next_call_number, settled_calls
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import (
    Advance,
    ClaimedStep,
    Fail,
    Postpone,
    Suspend,
    TrailEntry,
    TrailOutcome,
    Unreachable,
)
from tests.unit.stages.conftest import Plugins, plugin

Make = Callable[..., ClaimedStep]


def entry(key: str, outcome: TrailOutcome, **fields: object) -> TrailEntry:
    return TrailEntry(plugin_key=key, outcome=outcome, started_at=now(), **fields)  # type: ignore[arg-type]


def test_an_unavailable_plugin_postpones_the_job_and_counts_attempts(plugins: Plugins, claim: Make) -> None:
    away = plugin(Stage.FACTORS, "a")
    plugins.answers["a"] = PluginUnavailable("connection refused", attempts=3)
    first = factors.run(claim(Stage.FACTORS, [away]))
    assert isinstance(first, Postpone)
    assert "a has been unavailable since" in first.reason
    assert "connection refused" in first.reason
    assert first.unreachable["a"].attempts == 3
    second = factors.run(claim(Stage.FACTORS, [away], unreachable=first.unreachable))
    assert isinstance(second, Postpone)
    assert second.unreachable["a"].attempts == 6
    assert second.unreachable["a"].since == first.unreachable["a"].since
    assert second.unreachable["a"].postponements == 2


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [(FailurePolicy.FAIL, Fail), (FailurePolicy.IGNORE, Advance), (FailurePolicy.SUSPEND, Suspend)],
)
def test_after_its_patience_the_failure_policy_applies(
    plugins: Plugins, claim: Make, policy: FailurePolicy, outcome: type
) -> None:
    away = plugin(Stage.FACTORS, "a", failure_policy=policy)
    plugins.answers["a"] = PluginUnavailable("connection refused", attempts=1)
    long_since = {"a": Unreachable(since=now() - timedelta(seconds=61), attempts=4, postponements=5)}
    result = factors.run(claim(Stage.FACTORS, [away], unreachable=long_since))
    assert isinstance(result, outcome)
    (recorded,) = result.trail
    assert (recorded.attempts, recorded.outcome) == (
        5,
        {Fail: TrailOutcome.FAILED, Advance: TrailOutcome.IGNORED, Suspend: TrailOutcome.SUSPENDED}[outcome],
    )


SECRET = "Bearer STORED-0123456789-0123456789-0123456789"


@pytest.mark.parametrize("given", [SECRET, SECRET.partition(" ")[2]])
def test_what_a_plugin_repeats_of_its_secret_is_masked(plugins: Plugins, claim: Make, given: str) -> None:
    generator = plugin(Stage.FACTORS, "f", authorization=SECRET)
    plugins.answers["f"] = {"topic": "t", "advice": {given: [1, f"is {given}"]}, "reason": f"repeated {given}"}
    advanced = factors.run(claim(Stage.FACTORS, [generator]))
    assert isinstance(advanced, Advance)
    assert "STORED" not in str(advanced)
    assert "repeated ***" in str(advanced)
    gate = plugin(Stage.GATES, "g", authorization=SECRET)
    for answer in ({"decision": given}, {"decision": "stop", "reason": "x" * 980 + given}, BadAnswer(f"was {given}")):
        plugins.answers["g"] = answer
        result = gates.run(claim(Stage.GATES, [gate]), lambda: True)
        assert "STORED-0" not in str(result)
        assert "***" in str(result)


def test_a_taskset_that_repeats_the_plugin_s_secret_is_refused(plugins: Plugins, claim: Make) -> None:
    decorator = plugin(Stage.DECORATE, "d", authorization=SECRET)
    plugins.answers["d"] = lambda sent: {**sent["job"], "metadata": {"annotations": {"repeated": SECRET}}}
    failed = decorate.run(claim(Stage.DECORATE, [decorator]))
    assert isinstance(failed, Fail)
    assert "repeats the feature's authorization" in failed.reason
    assert "STORED" not in str(failed)
    plugins.answers["d"] = lambda sent: sent["job"]
    assert isinstance(decorate.run(claim(Stage.DECORATE, [decorator])), Advance)


def test_the_concurrency_limit_does_not_count_as_a_failure_of_the_plugin(plugins: Plugins, claim: Make) -> None:
    full = plugin(Stage.FACTORS, "a", patience_seconds=0)
    plugins.answers["a"] = ConcurrencyLimit("64 calls are under way", retry_after=1.0)
    result = factors.run(claim(Stage.FACTORS, [full]))
    assert isinstance(result, Postpone)
    assert result.unreachable == {}


def test_a_bad_answer_is_not_waited_for(plugins: Plugins, claim: Make) -> None:
    plugins.answers["a"] = BadAnswer("status 404", attempts=1)
    result = factors.run(claim(Stage.FACTORS, [plugin(Stage.FACTORS, "a")]))
    assert isinstance(result, Fail)
    assert result.reason == "a answered badly: status 404"


def test_answers_are_kept_while_the_job_waits_for_another_plugin(plugins: Plugins, claim: Make) -> None:
    both = [plugin(Stage.FACTORS, "a"), plugin(Stage.FACTORS, "b", position=2)]
    plugins.answers = {"a": PluginUnavailable("away"), "b": {"topic": "t", "advice": 2}}
    waiting = factors.run(claim(Stage.FACTORS, both))
    assert isinstance(waiting, Postpone)
    assert [kept.plugin_key for kept in waiting.trail] == ["b"]
    plugins.answers = {"a": {"topic": "t", "advice": 1}}
    plugins.asked.clear()
    done = factors.run(claim(Stage.FACTORS, both, trail=waiting.trail, unreachable=waiting.unreachable))
    assert isinstance(done, Advance)
    assert [key for key, _ in plugins.asked] == ["a"]
    assert done.factors is not None
    assert [factor["advice"] for factor in done.factors["t"]] == [1, 2], "joined in sequence order"


def test_a_call_after_a_suspension_has_the_next_call_number(claim: Make) -> None:
    a = plugin(Stage.GATES, "a")
    before = claim(Stage.GATES, [a], trail=[entry("a", TrailOutcome.SUSPENDED), entry("a", TrailOutcome.RESUMED)])
    assert settled_calls(before) == {}
    assert next_call_number(before, a) == 2


def test_the_next_call_number_does_not_need_the_oldest_entries(claim: Make) -> None:
    a = plugin(Stage.GATES, "a")
    last = replace(entry("a", TrailOutcome.SUSPENDED), call_number=300)
    assert next_call_number(claim(Stage.GATES, [a], trail=[last]), a) == 301


@pytest.mark.parametrize(
    ("outcomes", "done"),
    [
        ([TrailOutcome.ANSWERED], True),
        ([TrailOutcome.ANSWERED, TrailOutcome.RESUMED], True),
        ([TrailOutcome.IGNORED], True),
        ([TrailOutcome.SUSPENDED, TrailOutcome.RESUMED], False),
        ([TrailOutcome.ANSWERED, TrailOutcome.ASK_AGAIN], False),
        ([TrailOutcome.ANSWERED, TrailOutcome.ASK_AGAIN, TrailOutcome.ANSWERED], True),
    ],
)
def test_settled_calls_are_those_answered_or_ignored(claim: Make, outcomes: list[TrailOutcome], done: bool) -> None:
    before = claim(Stage.GATES, [], trail=[entry("a", outcome) for outcome in outcomes])
    assert ("a" in settled_calls(before)) is done
