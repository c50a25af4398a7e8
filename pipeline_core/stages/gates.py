"""Gates: called one after another, in sequence order, each once per job unless it asks to be called again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.features.snapshot import RegisteredPlugin
from pipeline_core.plugins import answers
from pipeline_core.plugins.answers import Decision, GateAnswer
from pipeline_core.stages.calls import (
    Unanswered,
    budget,
    call,
    ignored_entries,
    outcome_of_failures,
    request_body,
    settled_calls,
)
from pipeline_core.stages.choice import choose
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, NoPlace, Outcome, Stop, Suspend, TrailEntry
from pipeline_core.stages.shares import keys_of, shares

CALL_GATE_AGAIN = "ask"
"""`on_timeout` of a suspension whose gate is to be called again when its time is over."""

Renew = Callable[[list[TrailEntry]], None]


def run(step: ClaimedStep, renew: Renew) -> Outcome:
    """Call the gates that have not answered. `renew` writes trail entries and renews the lease; it is called between two
    gates, with the entry of the first of them. A place is needed for each gate."""
    earlier = settled_calls(step)
    choice = choose(Stage.GATES, step.plugins, step.kind, step.header)
    gates = [gate for gate in choice.plugins if gate.key not in earlier]
    body = request_body(step)
    unwritten: list[TrailEntry] = []
    for number, gate in enumerate(gates):
        if number and not shares().enter(step.owner, keys_of(step.user_id, [gate])):
            return NoPlace(plugin=gate, trail=unwritten)
        if unwritten:
            renew(unwritten)
            unwritten = []
            failpoints.reach(Point.GATE_WRITTEN, step.name)
        result = call(step, gate, body, time.monotonic() + budget([gate]), answers.gate)
        if isinstance(result, Unanswered):
            if outcome := outcome_of_failures([result], ()):
                return outcome
            unwritten = ignored_entries([result])
            continue
        failpoints.reach(Point.GATE_ANSWERED, gate.key, step.name)
        answer = result.value
        entry = replace(result.entry, decision=answer.decision, reason=answer.reason)
        match answer.decision:
            case Decision.PASS:
                unwritten = [entry]
            case Decision.SUSPEND:
                return _suspend(gate, answer, entry)
            case Decision.STOP:
                return Stop(trail=[entry], reason=answer.reason or f"stopped by {gate.key}")
    return Advance(trail=unwritten)


def _suspend(gate: RegisteredPlugin, answer: GateAnswer, entry: TrailEntry) -> Suspend:
    again = answer.ask_again_after_seconds
    timed = answer.suspend_for_seconds
    on_timeout = CALL_GATE_AGAIN if again is not None else answer.on_timeout if timed is not None else ""
    return Suspend(
        trail=[entry],
        plugin_key=gate.key,
        reason=answer.reason or f"suspended by {gate.key}",
        seconds=again if again is not None else timed,
        on_timeout=on_timeout,
        resumer=gate.resumer,
    )
