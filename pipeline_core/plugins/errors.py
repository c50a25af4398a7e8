"""The ways in which a plugin call fails: the plugin is unavailable, it answered badly, or a translator rejects the job."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from typing import Any

from pipeline_core.errors import PipelineError

MAX_QUOTED = 200
"""Characters of a plugin's answer that an error text quotes."""
MASK = "***"
_SHORTEST_PREFIX = 8


class CallFailed(PipelineError):
    """The call got no usable answer. `cause` is a short sentence without secrets, `attempts` counts the requests.

    `retry_after` is how many seconds to wait, if known; `status` is the answer's HTTP status, 0 without an answer.
    """

    def __init__(self, cause: str, *, attempts: int = 0, retry_after: float | None = None, status: int = 0) -> None:
        super().__init__(cause)
        self.cause = cause
        self.attempts = attempts
        self.retry_after = retry_after
        self.status = status


class PluginUnavailable(CallFailed):
    """The plugin cannot be reached, or reported that it is busy; a later call may succeed."""


class ConcurrencyLimit(PluginUnavailable):
    """The limit of concurrent calls of the plugin is reached. No request was made."""


class CircuitOpen(PluginUnavailable):
    """The plugin failed so often that it is not called for a while."""


class BadAnswer(CallFailed):
    """The plugin answered something that is not expected; non-retryable."""


class AnswerTooLarge(BadAnswer):
    """The answer has more bytes than one may have."""


class JobRejected(CallFailed):
    """A translator answered that the job is invalid: a mistake of its user, not of the plugin. `cause` is the reason."""


class AddressRefused(BadAnswer):
    """The plugin's address may not be called."""


def clean(text: str | bytes, hide: Iterable[str] = (), limit: int = MAX_QUOTED) -> str:
    """`text` from an untrusted source, sanitized for a message: on one line, printable, at most `limit` characters, with
    every secret in `hide` replaced."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    text = mask(text, hide)
    printable = "".join(char if char.isprintable() else " " for char in text)
    line = re.sub(r" {2,}", " ", printable).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def mask(text: str, secrets: Iterable[str]) -> str:
    """`text` with every secret replaced, also one that was cut off at the text's end or before an ellipsis."""
    for secret in secrets:
        text = text.replace(secret, MASK)
        for length in range(len(secret) - 1, _SHORTEST_PREFIX - 1, -1):
            if secret[:length] in text:
                text = re.sub(re.escape(secret[:length]) + "(?=…|$)", MASK, text)
                break
    return text


def masked(value: Any, secrets: Collection[str]) -> Any:
    """A JSON value, or a dataclass or tuple of such, with every secret in its texts replaced."""
    if not secrets:
        return value
    match value:
        case StrEnum():
            return value
        case str():
            return mask(value, secrets)
        case list() | tuple():
            return type(value)(masked(inner, secrets) for inner in value)
        case dict():
            return {mask(key, secrets): masked(inner, secrets) for key, inner in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{part.name: masked(getattr(value, part.name), secrets) for part in fields(value)})
    return value


def repeats(value: Any, secrets: Iterable[str]) -> bool:
    """Whether a JSON value has one of the secrets in a text."""
    text = json.dumps(value, ensure_ascii=False)
    return any(json.dumps(secret, ensure_ascii=False)[1:-1] in text for secret in secrets)
