"""Texts of clients: which ones can be stored and sent, and how values are quoted in messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from pipeline_core.validation.errors import Path, join_path

UNSTORABLE = "must not contain NUL characters or lone surrogates"

PRINTABLE = re.compile(r"[!-~]([ -~]*[!-~])?")
"""Printable ASCII without outer blanks, which every HTTP client can send in a header."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
DISGUISE = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Control and direction characters, as the inside of a class of a regular expression: with them a text may be shown as
something else than it is."""
CLEAN_NAME = rf"^[^\s{DISGUISE}]([^{DISGUISE}]*[^\s{DISGUISE}])?$"
"""What `clean_name` asks for, as a pattern for the OpenAPI document."""
_CLEAN_NAME = re.compile(CLEAN_NAME.replace("$", r"\Z"))
_DISGUISED = re.compile(f"[{DISGUISE}]")

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


def unstorable(value: object) -> Iterator[str]:
    """The paths in a JSON value of all texts that are not storable, names of fields among them."""
    rest: list[tuple[Path, object]] = [((), value)]
    while rest:
        path, value = rest.pop()
        if isinstance(value, str) and not storable(value):
            yield join_path("", *path)
        elif isinstance(value, list):
            rest.extend(((*path, index), item) for index, item in enumerate(value))
        elif isinstance(value, dict):
            yield from (join_path("", *path, name) for name in value if not storable(name))
            rest.extend(((*path, name), item) for name, item in value.items())


def clean_name(text: str) -> bool:
    """Whether the text reads as what it is: without control and direction characters, and without outer white space."""
    return _CLEAN_NAME.match(text) is not None


def disguised(text: str) -> bool:
    """Whether the text has control or direction characters, so that it may be shown as something else than it is."""
    return _DISGUISED.search(text) is not None


def header_value(text: str) -> bool:
    """Whether every HTTP client can send the text in a header: printable ASCII without outer blanks."""
    return PRINTABLE.fullmatch(text) is not None


def shown(value: object, longest: int = 80) -> str:
    """A value for use in a message: what it is, or JSON that is cut where it is long and safe to print."""
    if isinstance(value, list | dict):
        return kind(value)
    # A text is cut before it is quoted, so that it has both of its quotes.
    if isinstance(value, str):
        text = json.dumps(cut(value, longest), ensure_ascii=False)
    else:
        text = cut(json.dumps(value, ensure_ascii=False), longest)
    return text.encode("utf-8", "backslashreplace").decode()


def kind(value: object) -> str:
    """What JSON calls a value of this type."""
    return next((word for type_, word in _KINDS if isinstance(value, type_)), type(value).__name__)


def cut(text: str, longest: int = 80) -> str:
    """The text, short enough to be quoted in a message."""
    return text if len(text) <= longest else f"{text[:longest]}…"
