"""The ways in which a plugin call fails: the plugin is unavailable, it answered badly, or a translator rejects the job."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipeline_core.errors import PipelineError

MAX_QUOTED = 200
"""Characters of a plugin's own words that a user gets to see."""


class CallFailed(PipelineError):
    """The call brought no usable answer. `cause` is a short sentence without secrets, `attempts` counts the requests.

    `retry_after` is how many seconds to wait, if anything said so; `status` is the answer's, 0 where there was none.
    """

    def __init__(self, cause: str, *, attempts: int = 0, retry_after: float | None = None, status: int = 0) -> None:
        super().__init__(cause)
        self.cause = cause
        self.attempts = attempts
        self.retry_after = retry_after
        self.status = status


class PluginUnavailable(CallFailed):
    """The plugin cannot be reached, or said that it is busy; a later call may succeed."""


class ConcurrencyLimit(PluginUnavailable):
    """As many calls of the plugin as are allowed are in progress. It says nothing about the plugin."""


class CircuitOpen(PluginUnavailable):
    """The plugin failed so often that it is not called for a while."""


class BadAnswer(CallFailed):
    """The plugin answered with something else than was expected; another call would not help."""


class JobRejected(CallFailed):
    """A translator says that the job is wrong: the mistake is its user's, and not the plugin's. `cause` is what it says."""


class AddressRefused(BadAnswer):
    """The plugin's address may not be called."""


def clean(text: str | bytes, hide: Iterable[str] = (), limit: int = MAX_QUOTED) -> str:
    """`text`, which a stranger wrote, fit for a message: on one line, printable, at most `limit` characters, with every
    secret in `hide` replaced."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    for secret in hide:
        text = text.replace(secret, "***")
    printable = "".join(char if char.isprintable() else " " for char in text)
    line = re.sub(r" {2,}", " ", printable).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"
