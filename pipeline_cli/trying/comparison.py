"""One past job: what the plugin under trial answers to its packet, beside what was decided then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jsonpatch import apply_patch

from pipeline_cli.checking import meaning
from pipeline_cli.checking.exchange import Caller, OutOfTime
from pipeline_cli.checking.packets import Document, encoded
from pipeline_core.plugins.answers import GateAnswer
from pipeline_core.plugins.errors import CallFailed, JobRejected
from pipeline_core.plugins.packet import PluginCall, call_headers
from pipeline_core.plugins.types import PluginType
from pipeline_core.taskset.change import TaskSetChange, apply
from pipeline_core.taskset.masking import masked
from pipeline_core.taskset.values import equal

OUT_OF_TIME = "the time for all calls was over"
_ANSWER_TASKSETS = (PluginType.TEMPLATE_TRANSLATOR, PluginType.TEMPLATE_DECORATOR, PluginType.SCHEDULER_BINDER)


class Verdict(StrEnum):
    SAME = "same"
    DIFFERENT = "different"
    NOT_COMPARED = "not compared"


class Outcome(StrEnum):
    """Those of `TrailOutcome` that a plugin's answer has: that module loads the database's, which this command does without."""

    ANSWERED = "answered"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True)
class Decision:
    """What was decided about a job: by the trail, or by the plugin under trial.

    `value` is the list of factors, or the whole TaskSet after the change; `reached` is false when no answer came.
    """

    outcome: Outcome
    decision: str = ""
    reason: str = ""
    value: Any = None
    reached: bool = True

    def same(self, other: Decision) -> bool:
        """Whether both decide the same; reasons may differ."""
        mine, others = (self.outcome, self.decision), (other.outcome, other.decision)
        return mine == others and equal(self.value, other.value)


@dataclass(frozen=True)
class Comparison:
    """What became of one job. `plugin` is the key of the plugin that decided `then`; `message` says why it was not compared."""

    job_id: str
    verdict: Verdict
    plugin: str = ""
    then: Decision | None = None
    now: Decision | None = None
    message: str = ""


class Ambiguous(Exception):
    """Several plugins, of which none was chosen, decided about a job."""

    def __init__(self, job_id: str, keys: list[str]) -> None:
        super().__init__(f"{job_id} was decided by {', '.join(keys)}: choose one of them by --against")


def compare(caller: Caller, trial: str, job: Mapping[str, Any]) -> Comparison:
    """Ask the plugin about a job, which is one of `GET /v1/job/packets`. Raises Ambiguous.

    `trial` names the run of the command: a plugin remembers what it answered to an `Idempotency-Key`.
    """
    job_id, packet, answers = job["jobID"], job["packet"], job["answers"]
    if packet is None:
        return Comparison(job_id, Verdict.NOT_COMPARED, message=job["problem"])
    if len(answers) > 1:
        raise Ambiguous(job_id, [answer["plugin"] for answer in answers])
    (answer,) = answers
    then = recorded(caller.endpoint.type, packet, answer)
    try:
        now = asked(caller, trial, packet, job_id, job["namespace"])
    except OutOfTime:
        return Comparison(job_id, Verdict.NOT_COMPARED, answer["plugin"], then, message=OUT_OF_TIME)
    verdict = Verdict.SAME if then.same(now) else Verdict.DIFFERENT
    return Comparison(job_id, verdict, answer["plugin"], then, now)


def recorded(plugin_type: PluginType, packet: Document, answer: Mapping[str, Any]) -> Decision:
    """What a plugin decided about the job of a packet, by its recorded answer."""
    outcome, value = Outcome(answer["outcome"]), None
    if outcome is Outcome.ANSWERED and plugin_type in _ANSWER_TASKSETS:
        value = apply_patch(packet["job"], answer["patch"] or [])
    elif plugin_type is PluginType.FACTOR_GENERATOR:
        value = [{"topic": factor["topic"], "advice": factor["advice"]} for factor in answer["factors"] or ()]
    return Decision(outcome, answer["decision"], answer["reason"], value)


def asked(caller: Caller, trial: str, packet: Document, job_id: str, namespace: str) -> Decision:
    """What the plugin decides about the job of a packet now. Raises OutOfTime."""
    endpoint, body = caller.endpoint, encoded(packet)
    key = PluginCall(job_id, f"try-{trial}", endpoint.key).idempotency_key
    exchange = caller.post(body, call_headers(endpoint, body, job_id=job_id, idempotency_key=key, request_id="try"))
    try:
        return _decision(packet, meaning.value(endpoint, packet, exchange, job_id, namespace))
    except JobRejected as error:
        return Decision(Outcome.REJECTED, reason=error.cause)
    except CallFailed as error:
        return Decision(Outcome.FAILED, reason=error.cause, reached=exchange.response is not None)


def _decision(packet: Document, answer: Any) -> Decision:
    match answer:
        case GateAnswer():
            return Decision(Outcome.ANSWERED, str(answer.decision), answer.reason)
        case TaskSetChange():
            return Decision(Outcome.ANSWERED, value=masked(apply(packet["job"], answer)))
        case tuple():
            return Decision(Outcome.ANSWERED, value=[{"topic": one.topic, "advice": one.advice} for one in answer])
    return Decision(Outcome.ANSWERED, value=masked(answer))
