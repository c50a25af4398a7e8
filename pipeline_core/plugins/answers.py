"""What the plugins of each type must answer.

Each function reads one answer's body and raises BadAnswer, saying what was expected, for anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from pipeline_core.common import strict_json
from pipeline_core.common.strict_json import NotStrict
from pipeline_core.plugins.errors import BadAnswer, clean

Word = TypeVar("Word", bound=StrEnum)

MAX_REASON = 1000
"""Characters of a reason that are kept; also the limit for reasons that users give."""
MAX_SECONDS = 366 * 24 * 3600
"""The longest time that a gate may suspend for."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a FactorGenerator. `advice` may be any JSON value and is stored unchanged."""

    topic: str
    advice: Any
    reason: str = ""


def factors(body: bytes) -> tuple[Factor, ...]:
    """A FactorGenerator's answer: one factor, or an array of them; an empty array is none."""
    document = _document(body)
    if isinstance(document, list):
        return tuple(_factor(element, f"[{index}]") for index, element in enumerate(document))
    return (_factor(document, ""),)


def _factor(value: Any, path: str) -> Factor:
    where = f"factor {path}" if path else "its answer"
    if not isinstance(value, dict):
        raise BadAnswer(f"{where} is {_kind(value)}; an object with `topic` and `advice` was expected")
    topic = value.get("topic")
    if not isinstance(topic, str) or not topic.strip():
        raise BadAnswer(f"`topic` of {where} is {_kind(topic)}; a text that is not empty was expected")
    if "advice" not in value:
        raise BadAnswer(f"`advice` of {where} is missing; any value was expected")
    return Factor(topic, value["advice"], _reason(value, where))


class Decision(StrEnum):
    """What an AccessGate may decide about a job."""

    PASS = "pass"
    SUSPEND = "suspend"
    STOP = "stop"


class OnTimeout(StrEnum):
    """What happens to a job when its suspension times out."""

    STOP = "stop"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """At most one of the two times is set, and only with `suspend`; `on_timeout` goes with `suspend_for_seconds`."""

    decision: Decision
    reason: str = ""
    suspend_for_seconds: float | None = None
    on_timeout: OnTimeout = OnTimeout.STOP
    ask_again_after_seconds: float | None = None


def gate(body: bytes) -> GateAnswer:
    """An AccessGate's answer."""
    value = _object(body, "an object with `decision`")
    decision = _word(value, "decision", Decision, None)
    answer = GateAnswer(
        decision=decision,
        reason=_reason(value, "its answer"),
        suspend_for_seconds=_seconds(value, "suspendForSeconds"),
        on_timeout=_word(value, "onTimeout", OnTimeout, OnTimeout.STOP),
        ask_again_after_seconds=_seconds(value, "askAgainAfterSeconds"),
    )
    timed, again = answer.suspend_for_seconds is not None, answer.ask_again_after_seconds is not None
    if decision is not Decision.SUSPEND and (timed or again):
        raise BadAnswer(f"`suspendForSeconds` and `askAgainAfterSeconds` go with 'suspend', not with '{decision}'")
    if timed and again:
        raise BadAnswer("`suspendForSeconds` and `askAgainAfterSeconds` exclude each other")
    if value.get("onTimeout") is not None and not timed:
        raise BadAnswer("`onTimeout` goes with `suspendForSeconds`, which is missing")
    return answer


def taskset(body: bytes) -> dict[str, Any]:
    """The answer of a translator, decorator or binder: an object, not yet checked against the TaskSet's schema."""
    return _object(body, "a TaskSet")


class Acknowledgement(StrEnum):
    """A LifeHook's answer to a delivery: OK, retry later (RE), or give up (EX)."""

    OK = "OK"
    RETRY = "RE"
    EXCEPTION = "EX"


def acknowledgement(body: bytes) -> Acknowledgement:
    """A LifeHook's answer; a byte order mark, surrounding white space and case do not matter."""
    word = body.decode("utf-8-sig", "replace").strip().upper()
    try:
        return Acknowledgement(word)
    except ValueError:
        raise BadAnswer(f"answered '{clean(body)}'; OK, RE or EX was expected") from None


def alert_acknowledgement(body: bytes) -> Acknowledgement:
    """The answer of the alert receiver, which may be any HTTP service: anything but RE and EX counts as OK."""
    try:
        return acknowledgement(body)
    except BadAnswer:
        return Acknowledgement.OK


def _document(body: bytes) -> Any:
    try:
        return strict_json.parse(body)
    except NotStrict as error:
        raise BadAnswer(f"its answer {error}") from None


def _object(body: bytes, expected: str) -> dict[str, Any]:
    document = _document(body)
    if not isinstance(document, dict):
        raise BadAnswer(f"its answer is {_kind(document)}; {expected} was expected")
    return document


def _word(value: Mapping[str, Any], name: str, words: type[Word], default: Word | None) -> Word:
    word = value.get(name)
    if word is None and default is not None:
        return default
    if isinstance(word, str) and word in list(words):
        return words(word)
    given = f"'{clean(word, limit=40)}'" if isinstance(word, str) else _kind(word)
    raise BadAnswer(f"`{name}` is {given}; {', '.join(words)} (in lower case) was expected")


def _seconds(value: Mapping[str, Any], name: str) -> float | None:
    number = value.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number <= MAX_SECONDS:
        raise BadAnswer(f"`{name}` is {_kind(number)}; seconds, more than 0 and at most {MAX_SECONDS}, were expected")
    return float(number)


def _reason(value: Mapping[str, Any], where: str) -> str:
    reason = value.get("reason")
    if reason is None:
        return ""
    if not isinstance(reason, str):
        raise BadAnswer(f"`reason` of {where} is {_kind(reason)}; a text was expected")
    return clean(reason, limit=MAX_REASON)


def _kind(value: Any) -> str:
    """A short description of `value` for an error text, without the content of texts, arrays and objects."""
    match value:
        case None:
            return "missing or null"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return clean(f"the number {value:g}" if abs(value) < 1e300 else "a huge number", limit=40)
        case str():
            return "a text" if value.strip() else "an empty text"
        case list():
            return "an array"
        case _:
            return "an object"
