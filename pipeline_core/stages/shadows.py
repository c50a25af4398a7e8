"""Shadows: which of them are asked about a stage that has been decided, what one answers, and whether it agrees.

A shadow is sent what the plugins of the stage were sent, and its answer is read as theirs are. Nothing of it reaches the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipeline_core.common.clock import now
from pipeline_core.features.snapshot import RegisteredPlugin
from pipeline_core.plugins import answers
from pipeline_core.plugins.client import shadow_client
from pipeline_core.plugins.errors import CallFailed, CircuitOpen, ConcurrencyLimit, JobRejected, mask
from pipeline_core.plugins.packet import Packet, PluginCall
from pipeline_core.plugins.shadow_queue import Addressed
from pipeline_core.plugins.types import PluginType
from pipeline_core.stages import reading
from pipeline_core.stages.calls import budget, without_secrets
from pipeline_core.stages.choice import choose
from pipeline_core.stages.names import PLUGIN_TYPE, STAGES, Stage
from pipeline_core.stages.outcomes import (
    SHADOW_CALL,
    Advance,
    ClaimedStep,
    Fail,
    Launched,
    Outcome,
    Stop,
    Suspend,
    TrailEntry,
    TrailOutcome,
)
from pipeline_core.taskset import document as taskset
from pipeline_core.taskset.change import patch

_ANSWERS = frozenset({TrailOutcome.ANSWERED, TrailOutcome.REJECTED})

Fields = Mapping[str, Any]


def due(step: ClaimedStep, outcome: Outcome) -> tuple[Addressed, ...]:
    """The shadows to ask about the step's stage once this outcome of it is committed, and about the stages before it that were
    skipped; one that took part in the stage itself, before another was promoted, is not asked."""
    if not step.plugins.has_shadows or not isinstance(outcome, Advance | Suspend | Stop | Fail | Launched):
        return ()
    called = {call.plugin_key for call in step.trail}
    replaced = _passed(step, outcome) if isinstance(outcome, Suspend) else None
    return tuple(
        (shadow.key, (step.job_id, str(stage), shadow.shadow_of))
        for stage in _decided(step)
        for shadow in step.plugins.shadows(PLUGIN_TYPE[stage])
        if shadow.key not in called
        and (replaced is None or stage is not step.stage or shadow.shadow_of in replaced)
        and shadow.matches(step.header)
    )


def _passed(step: ClaimedStep, outcome: Suspend) -> frozenset[str]:
    """The keys of the gates that have decided about a job that is suspended; it comes back to the stage for the others."""
    if step.stage is not Stage.GATES:
        return frozenset()
    gates = [gate.key for gate in choose(step.stage, step.plugins, step.kind, step.header).plugins]
    answered = any(call.outcome is TrailOutcome.ANSWERED for call in outcome.trail)
    return frozenset(gates[: gates.index(outcome.plugin_key) + answered])


def _decided(step: ClaimedStep) -> Iterator[Stage]:
    if step.stage in PLUGIN_TYPE:
        yield step.stage
    for stage in reversed(STAGES[: STAGES.index(step.stage)]):
        if not choose(stage, step.plugins, step.kind, step.header).skipped:
            return
        if stage is not Stage.TRANSLATE or step.kind != taskset.KIND:
            yield stage


def ask(
    plugin: RegisteredPlugin, job_id: str, stage: Stage, packet: Packet, namespace: str, request_id: str
) -> TrailEntry:
    """Ask a shadow, and return its answer as it would be on the trail. `namespace` is for a TaskSet that names none.

    Raises CircuitOpen and ConcurrencyLimit when it is not asked now. If it was, and may not be asked once more, it has failed.
    """
    call = PluginCall(job_id, stage, plugin.key, SHADOW_CALL)
    started_at, started = now(), time.monotonic()

    def entry(outcome: TrailOutcome, attempts: int, **fields: Any) -> TrailEntry:
        return TrailEntry(
            plugin_key=plugin.key,
            outcome=outcome,
            started_at=started_at,
            call_number=SHADOW_CALL,
            attempts=attempts,
            duration_ms=round((time.monotonic() - started) * 1000),
            **fields,
        )

    attempts = 0
    try:
        body = packet.encode()
        reply = shadow_client().call(
            plugin.endpoint,
            body,
            job_id=job_id,
            idempotency_key=call.idempotency_key,
            deadline=started + budget([plugin]),
            request_id=request_id,
        )
        attempts = reply.attempts

        def keep(value: Any) -> Any:
            return without_secrets(plugin, value, body, reply.body)

        return entry(
            TrailOutcome.ANSWERED,
            attempts,
            **_READ[plugin.type](reply.body, packet.job, keep, job_id, namespace),
        )
    except CallFailed as failure:
        if isinstance(failure, CircuitOpen | ConcurrencyLimit) and not failure.attempts:
            raise
        outcome = TrailOutcome.REJECTED if isinstance(failure, JobRejected) else TrailOutcome.FAILED
        return entry(outcome, attempts or failure.attempts, reason=mask(failure.cause, plugin.endpoint.secrets))


def agrees(type: PluginType, decided: TrailEntry | None, answer: TrailEntry) -> bool | None:
    """Whether a shadow answered what was decided; None when either did not answer."""
    if decided is None or decided.outcome not in _ANSWERS or answer.outcome not in _ANSWERS:
        return None
    if decided.outcome is not answer.outcome:
        return False
    return bool(_decision(type, decided) == _decision(type, answer))


def deciding(type: PluginType, calls: Sequence[TrailEntry], shadow_of: str) -> int | None:
    """Which of the plugin calls of a stage, the oldest first, a shadow is compared with: the last of the plugin that it is to
    replace. Of a shadow that names none, what the stage came to where that is one plugin's answer."""
    made = [n for n, call in enumerate(calls) if call.outcome not in (TrailOutcome.RESUMED, TrailOutcome.ASK_AGAIN)]
    if shadow_of:
        made = [n for n in made if calls[n].plugin_key == shadow_of]
    elif type not in (PluginType.TEMPLATE_TRANSLATOR, PluginType.ACCESS_GATE, PluginType.SCHEDULER_BINDER):
        made = []
    return made[-1] if made else None


def _decision(type: PluginType, entry: TrailEntry) -> Any:
    match type:
        case PluginType.ACCESS_GATE:
            return entry.decision
        case PluginType.FACTOR_GENERATOR:
            return [(factor["topic"], factor["advice"]) for factor in entry.factors or ()]
        case _:
            return [*entry.patch] if entry.patch else []


Keep = Callable[[Any], Any]


def _gate(body: bytes, job: Fields, keep: Keep, job_id: str, namespace: str) -> Fields:
    answer = keep(answers.gate(body))
    return {"decision": answer.decision, "reason": answer.reason}


def _factors(body: bytes, job: Fields, keep: Keep, job_id: str, namespace: str) -> Fields:
    return {"factors": [asdict(factor) for factor in keep(answers.factors(body))]}


def _translation(body: bytes, job: Fields, keep: Keep, job_id: str, namespace: str) -> Fields:
    document = keep(reading.translation(body, job_id, namespace))
    return {"patch": [{"op": "replace", "path": "", "value": document}]}


def _decoration(body: bytes, job: Fields, keep: Keep, job_id: str, namespace: str) -> Fields:
    return {"patch": patch(job, keep(reading.decoration(job, body)))}


def _binding(body: bytes, job: Fields, keep: Keep, job_id: str, namespace: str) -> Fields:
    return {"patch": patch(job, keep(reading.binding(job, body)))}


_READ: Mapping[PluginType, Callable[[bytes, Fields, Keep, str, str], Fields]] = {
    PluginType.TEMPLATE_TRANSLATOR: _translation,
    PluginType.FACTOR_GENERATOR: _factors,
    PluginType.ACCESS_GATE: _gate,
    PluginType.TEMPLATE_DECORATOR: _decoration,
    PluginType.SCHEDULER_BINDER: _binding,
}
