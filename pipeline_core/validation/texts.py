"""Texts of clients: which ones can be stored and sent, and how values are quoted in messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PRINTABLE = re.compile(r"[!-~]([ -~]*[!-~])?")

_KINDS: tuple[tuple[type, str], ...] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (int, "a number"),
    (float, "a number"),
    (str, "a text"),
    (list, "a list"),
    (Mapping, "an object"),
)


def storable(text: str) -> bool:
    """Whether PostgreSQL can keep the text: it has neither NUL characters nor lone surrogates."""
    return not _UNSTORABLE.search(text)


def header_value(text: str) -> bool:
    """Whether every HTTP client can send the text in a header: printable ASCII without outer blanks."""
    return _PRINTABLE.fullmatch(text) is not None


def shown(value: object, longest: int = 80) -> str:
    """A value for use in a message: what it is, or JSON that is cut where it is long and safe to print."""
    if isinstance(value, list | dict):
        return kind(value)
    return cut(json.dumps(value, ensure_ascii=False), longest).encode("utf-8", "backslashreplace").decode()


def kind(value: object) -> str:
    """What JSON calls a value of this type."""
    return next((word for type_, word in _KINDS if isinstance(value, type_)), type(value).__name__)


def cut(text: str, longest: int = 80) -> str:
    """The text, short enough to be quoted in a message."""
    return text if len(text) <= longest else f"{text[:longest]}…"
