"""What a plugin may answer, by functions that refuse a wrong answer where it is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_SECONDS = 366 * 24 * 3600
"""The longest time that a gate may suspend for."""


@dataclass(frozen=True)
class Decision:
    """What a gate decided; made by `passed`, `suspend` and `stop`."""

    decision: str
    reason: str = ""
    suspend_for_seconds: float | None = None
    on_timeout: str | None = None
    ask_again_after_seconds: float | None = None

    def document(self) -> dict[str, Any]:
        """The JSON of the answer."""
        fields: dict[str, Any] = {
            "decision": self.decision,
            "reason": self.reason,
            "suspendForSeconds": self.suspend_for_seconds,
            "onTimeout": self.on_timeout,
            "askAgainAfterSeconds": self.ask_again_after_seconds,
        }
        return {name: value for name, value in fields.items() if value is not None}


def passed(reason: str = "") -> Decision:
    """The next gate is asked."""
    return Decision("pass", _text("reason", reason))


def stop(reason: str = "") -> Decision:
    """The job is stopped, for good."""
    return Decision("stop", _text("reason", reason))


def suspend(
    reason: str = "",
    *,
    for_seconds: float | None = None,
    on_timeout: str | None = None,
    ask_again_after_seconds: float | None = None,
) -> Decision:
    """The job is suspended until somebody resumes it, and goes on with the next gate then.

    After `for_seconds` it is stopped, or resumed with `on_timeout="resume"`. After `ask_again_after_seconds` this gate is asked
    again instead. Raises ValueError for times that are not more than 0 and at most 366 days, and for what excludes each other.
    """
    for name, value in (("for_seconds", for_seconds), ("ask_again_after_seconds", ask_again_after_seconds)):
        if value is not None and (isinstance(value, bool) or not 0 < value <= MAX_SECONDS):
            raise ValueError(f"{name} is {value!r}; seconds, more than 0 and at most {MAX_SECONDS}, were expected")
    if for_seconds is not None and ask_again_after_seconds is not None:
        raise ValueError("for_seconds and ask_again_after_seconds exclude each other")
    if on_timeout is not None and (for_seconds is None or on_timeout not in ("stop", "resume")):
        raise ValueError(f"on_timeout is {on_timeout!r}; 'stop' or 'resume' was expected, together with for_seconds")
    return Decision("suspend", _text("reason", reason), for_seconds, on_timeout, ask_again_after_seconds)


@dataclass(frozen=True)
class Factor:
    """Advice on a topic; made by `factor`. `advice` may be any JSON value."""

    topic: str
    advice: Any
    reason: str = ""

    def document(self) -> dict[str, Any]:
        """The JSON of the factor."""
        return {"topic": self.topic, "advice": self.advice, "reason": self.reason}


def factor(topic: str, advice: Any, reason: str = "") -> Factor:
    """A factor. Raises ValueError for an empty topic, TypeError or ValueError for advice that is no JSON value."""
    if not _text("topic", topic).strip():
        raise ValueError("the topic is empty")
    encoded(advice)
    return Factor(topic, advice, _text("reason", reason))


@dataclass(frozen=True)
class Acknowledgement:
    """What a LifeHook answers to an event; made by `received`, `retry` and `give_up`."""

    word: str
    retry_after: int | None = None

    def headers(self) -> Mapping[str, str]:
        """The headers of the answer beside its media type."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def received() -> Acknowledgement:
    """The event is done. A LifeHook that returns nothing says so, too."""
    return Acknowledgement("OK")


def retry(after_seconds: int | None = None) -> Acknowledgement:
    """The event is sent again later, not before `after_seconds`. It holds up the later events of the same job."""
    if after_seconds is not None and (isinstance(after_seconds, bool) or after_seconds < 0):
        raise ValueError(f"after_seconds is {after_seconds!r}; whole seconds, at least 0, were expected")
    return Acknowledgement("RE", after_seconds)


def give_up() -> Acknowledgement:
    """The event is not sent again; it is recorded as `exception`."""
    return Acknowledgement("EX")


class Rejected(Exception):
    """Raise it in a translator when the job itself is wrong: the job fails, and its reason has these words."""


def encoded(value: Any) -> bytes:
    """The JSON of an answer. Raises TypeError or ValueError for what is no JSON value, such as a NaN."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; a text was expected")
    return value
