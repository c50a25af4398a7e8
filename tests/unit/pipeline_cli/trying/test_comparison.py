"""What a plugin under trial answers is compared with what was decided then."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pipeline_cli.checking.exchange import Caller
from pipeline_cli.trying.comparison import OUT_OF_TIME, Ambiguous, Decision, Outcome, Verdict, compare, recorded
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.types import PluginType
from pipeline_core.stages.outcomes import TrailOutcome
from tests.builders import taskset
from tests.unit.pipeline_cli.checking.wrong_plugins import Hangs, Right, deciding, served
from tests.waiting import HANG_SECONDS

GATE = PluginType.ACCESS_GATE
PACKET = {"factors": {}, "header": {"userID": "ann", "jobID": "j1"}, "job": taskset()}


def test_outcomes_are_written_as_in_the_trail() -> None:
    assert {str(outcome) for outcome in Outcome} <= {str(outcome) for outcome in TrailOutcome}


class Unsigned(Right):
    def signed(self, body: bytes) -> bool:
        return True


def caller(url: str, kind: PluginType = GATE, *, seconds: float = HANG_SECONDS, limit: float = HANG_SECONDS) -> Caller:
    return Caller(Endpoint(f"{kind}.try.try", kind, url), seconds, time.monotonic() + limit)


def answer(plugin: str = "AccessGate.f.a", **fields: Any) -> dict[str, Any]:
    empty = {"outcome": "answered", "decision": "", "reason": "", "factors": None, "patch": None}
    return {"plugin": plugin, **empty, **fields}


def job(*answers: dict[str, Any]) -> dict[str, Any]:
    return {"jobID": "j1", "namespace": "default", "packet": PACKET, "answers": list(answers), "problem": ""}


@pytest.mark.parametrize(
    ("then", "verdict"), [("pass", Verdict.SAME), ("suspend", Verdict.DIFFERENT), ("stop", Verdict.DIFFERENT)]
)
def test_a_gate_is_compared_by_its_decision(then: str, verdict: Verdict) -> None:
    with served(Unsigned) as url:
        found = compare(caller(url), "t1", job(answer(decision=then, reason="another reason")))
    assert (found.verdict, found.plugin) == (verdict, "AccessGate.f.a")
    assert found.now == Decision(Outcome.ANSWERED, "pass", "fine")


def test_factors_are_compared_by_topic_and_advice() -> None:
    kind = PluginType.FACTOR_GENERATOR
    factors = [{"topic": "size", "advice": [1, 2], "reason": "now"}]
    handler = type("Generates", (deciding(lambda packet: factors),), {"signed": lambda self, body: True})
    with served(handler) as url:
        same = compare(caller(url, kind), "t1", job(answer(factors=[{**factors[0], "reason": "then"}])))
        other = compare(caller(url, kind), "t1", job(answer(factors=[{**factors[0], "advice": [1, 2.5]}])))
        none = compare(caller(url, kind), "t1", job(answer(factors=[])))
    assert [one.verdict for one in (same, other, none)] == [Verdict.SAME, Verdict.DIFFERENT, Verdict.DIFFERENT]


def test_what_was_rejected_is_the_same_when_it_is_rejected_again() -> None:
    rejected = recorded(PluginType.TEMPLATE_TRANSLATOR, PACKET, answer(outcome="rejected", reason="no image"))
    assert rejected.same(Decision(Outcome.REJECTED, reason="no image was given"))
    assert not rejected.same(Decision(Outcome.ANSWERED, value=taskset()))


def test_a_recorded_change_is_applied_to_the_job_of_the_packet() -> None:
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"team": "vision"}}]
    found = recorded(PluginType.TEMPLATE_DECORATOR, PACKET, answer(patch=patch))
    assert found.value["metadata"]["labels"] == {"team": "vision"}
    assert recorded(PluginType.TEMPLATE_DECORATOR, PACKET, answer(patch=[])).value == PACKET["job"]
    assert "labels" not in taskset()["metadata"]


def test_a_plugin_that_hangs_is_reported_within_its_time() -> None:
    with served(Hangs) as url:
        found = compare(caller(url, seconds=Hangs.seconds), "t1", job(answer(decision="pass")))
        late = compare(caller(url, limit=-1), "t1", job(answer(decision="pass")))
    assert found.verdict is Verdict.DIFFERENT
    assert found.now
    assert (found.now.outcome, found.now.reached) == (Outcome.FAILED, False)
    assert (late.verdict, late.message) == (Verdict.NOT_COMPARED, OUT_OF_TIME)


def test_a_job_without_a_packet_is_not_compared() -> None:
    with served(Unsigned) as url:
        found = compare(caller(url), "t1", {**job(), "packet": None, "problem": "it was not translated"})
    assert (found.verdict, found.message) == (Verdict.NOT_COMPARED, "it was not translated")


def test_of_several_plugins_one_has_to_be_chosen() -> None:
    with served(Unsigned) as url, pytest.raises(Ambiguous, match=r"AccessGate\.f\.a, AccessGate\.g\.a"):
        compare(caller(url), "t1", job(answer(), answer("AccessGate.g.a")))
