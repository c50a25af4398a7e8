"""What a plugin is sent: the packet of a stage, or the event of a LifeHook."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from pipeline_plugin.answers import Factor

Json = Any
Value = TypeVar("Value")


class BadPacket(Exception):
    """A request's body is not what the service sends; answered with status 400."""


@dataclass(frozen=True)
class Packet:
    """What a stage sends. `job` is the job as submitted for a translator, and the TaskSet for all others. `header` has what was
    submitted as header, with `userID`, `jobName`, `jobKind` and `jobID`. `factors` are those of earlier plugins, by topic.

    `job_id`, `request_id` and `idempotency_key` are the request's headers; they are empty in a test without them.
    """

    factors: Mapping[str, Sequence[Factor]]
    header: Mapping[str, Json]
    job: Mapping[str, Json]
    job_id: str = ""
    request_id: str = ""
    idempotency_key: str = ""

    def advice(self, topic: str) -> list[Json]:
        """What was advised on a topic, in the plugins' order; empty if nothing was."""
        return [one.advice for one in self.factors.get(topic, ())]

    @classmethod
    def read(cls, document: Json, headers: Mapping[str, str] | None = None) -> Packet:
        """The packet in a request's JSON; `headers` by lower-case names. Unknown fields are ignored. Raises BadPacket."""
        given = headers or {}
        factors = _object(document, "factors")
        header = _object(document, "header")
        return cls(
            factors={topic: tuple(_factor(topic, one) for one in _list(factors, topic)) for topic in factors},
            header=header,
            job=_object(document, "job"),
            job_id=given.get("x-job-id", "") or str(header.get("jobID", "")),
            request_id=given.get("x-request-id", ""),
            idempotency_key=given.get("idempotency-key", ""),
        )


@dataclass(frozen=True)
class Event:
    """A change of a job's state, which a LifeHook is sent. `sequence` counts the changes of one job from 1; times are RFC 3339.
    `raw` is the event as it came, with fields that are newer than this class."""

    id: str
    current_state: str
    previous_state: str
    user_id: str
    job_name: str
    job_kind: str
    namespace: str
    reason: str
    sequence: int
    occurred_at: str
    request_id: str = ""
    idempotency_key: str = ""
    raw: Mapping[str, Json] = field(default_factory=dict, repr=False)

    @property
    def ended(self) -> bool:
        """Whether no further change follows."""
        return self.current_state in ("succeeded", "failed", "stopped")

    @classmethod
    def read(cls, document: Json, headers: Mapping[str, str] | None = None) -> Event:
        """The event in a request's JSON; `headers` by lower-case names. Raises BadPacket."""
        given = headers or {}
        if not isinstance(document, dict):
            raise BadPacket("the body is not a JSON object")
        state = document.get("currentState", document.get("current_state"))
        return cls(
            id=_typed(document, "id", str),
            current_state=_typed({"currentState": state}, "currentState", str),
            previous_state=_typed(document, "previousState", str, ""),
            user_id=_typed(document, "userID", str, ""),
            job_name=_typed(document, "jobName", str, ""),
            job_kind=_typed(document, "jobKind", str, ""),
            namespace=_typed(document, "namespace", str, ""),
            reason=_typed(document, "reason", str, ""),
            sequence=_typed(document, "sequence", int),
            occurred_at=_typed(document, "occurredAt", str, ""),
            request_id=given.get("x-request-id", ""),
            idempotency_key=given.get("idempotency-key", ""),
            raw=document,
        )


def parsed(body: bytes) -> Json:
    """The JSON of a request's body. Raises BadPacket."""
    try:
        return json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise BadPacket("the body is not JSON") from None


def _object(document: Json, name: str) -> Mapping[str, Json]:
    if not isinstance(document, dict):
        raise BadPacket("the body is not a JSON object")
    if not isinstance(document.get(name), dict):
        raise BadPacket(f"`{name}` is not an object")
    return cast("Mapping[str, Json]", document[name])


def _list(document: Mapping[str, Json], name: str) -> list[Json]:
    if not isinstance(document[name], list):
        raise BadPacket(f"factors.{name} is not a list")
    return cast("list[Json]", document[name])


def _factor(topic: str, value: Json) -> Factor:
    if not isinstance(value, dict):
        raise BadPacket(f"an element of factors.{topic} is not an object")
    return Factor(topic, value.get("advice"), str(value.get("reason") or ""))


_MISSING: Any = object()


def _typed(document: Mapping[str, Json], name: str, wanted: type[Value], default: Value = _MISSING) -> Value:
    value = document.get(name)
    if value is None and default is not _MISSING:
        return default
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise BadPacket(f"`{name}` is not {'a text' if wanted is str else 'a number'}")
    return value
