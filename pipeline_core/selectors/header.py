"""How a condition's `key` finds a text in a job's header."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

Header = Mapping[str, object]
"""A job's header as parsed JSON, with the presets in it."""

PRESETS: tuple[str, ...] = ("userID", "jobName", "jobID", "jobKind")
"""The keys that the service itself writes into every header."""


def text_of(value: object) -> str:
    """A JSON value as the text that conditions look at: null is empty, text is itself, all else its compact JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def reader(key: str) -> Callable[[Header], str]:
    """A function that finds the text under `key`: an exact top-level key wins, else dots go deeper into objects.

    What is not there, and elements of arrays, are the empty text.
    """
    first, *deeper = key.split(".")

    def read(header: Header) -> str:
        if not deeper or key in header:
            return text_of(header.get(key))
        value = header.get(first)
        for part in deeper:
            value = value.get(part) if isinstance(value, dict) else None
        return text_of(value)

    return read
