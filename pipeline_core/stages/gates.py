"""Gates: one after the other, in sequence order, each asked once for a job unless it wants to be asked again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.plugins import answers
from pipeline_core.plugins.answers import Decision, GateAnswer
from pipeline_core.stages.asking import Unanswered, answered, ask, budget, encode, ignored_entries, settle
from pipeline_core.stages.choice import choose
from pipeline_core.stages.order import Stage
from pipeline_core.stages.outcomes import Advance, Claim, Entry, Outcome, Stop, Suspend

ASK_AGAIN = "ask"
"""`on_timeout` of a suspension whose gate is to be asked anew when its time is over."""

Renew = Callable[[list[Entry]], None]


def run(claim: Claim, renew: Renew) -> Outcome:
    """Ask the gates that have not answered. `renew` writes entries down and holds the lease anew; before each gate but
    the first it is called with what the one before has said."""
    earlier = answered(claim)
    choice = choose(Stage.GATES, claim.plugins, claim.kind, claim.header)
    gates = [gate for gate in choice.asked if gate.key not in earlier]
    body = encode(claim)
    unwritten: list[Entry] = []
    for gate in gates:
        if unwritten:
            renew(unwritten)
            unwritten = []
            failpoints.reach(Point.GATE_WRITTEN, claim.name)
        result = ask(claim, gate, body, time.monotonic() + budget([gate]), answers.gate)
        if isinstance(result, Unanswered):
            if outcome := settle([result], ()):
                return outcome
            unwritten = ignored_entries([result])
            continue
        failpoints.reach(Point.GATE_ANSWERED, gate.key, claim.name)
        answer = result.value
        entry = replace(result.entry, decision=answer.decision, reason=answer.reason)
        match answer.decision:
            case Decision.PASS:
                unwritten = [entry]
            case Decision.SUSPEND:
                return _suspend(gate.key, answer, entry)
            case Decision.STOP:
                return Stop(trail=[entry], reason=answer.reason or f"stopped by {gate.key}")
    return Advance(trail=unwritten)


def _suspend(key: str, answer: GateAnswer, entry: Entry) -> Suspend:
    again = answer.ask_again_after_seconds
    timed = answer.suspend_for_seconds
    on_timeout = ASK_AGAIN if again is not None else answer.on_timeout if timed is not None else ""
    return Suspend(
        trail=[entry],
        plugin_key=key,
        reason=answer.reason or f"suspended by {key}",
        seconds=again if again is not None else timed,
        on_timeout=on_timeout,
    )
