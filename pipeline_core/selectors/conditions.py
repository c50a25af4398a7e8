"""Conditions: which text a `key` finds in a job's header, and which texts an `expect` accepts.

Regular expressions are RE2's (https://github.com/google/re2/wiki/Syntax): they take linear time whatever the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import re2

from pipeline_core.errors import WrongParameter
from pipeline_core.validation.texts import cut

Header = Mapping[str, object]
"""A job's header as parsed JSON, including the presets."""

PRESETS: tuple[str, ...] = ("userID", "jobName", "jobID", "jobKind")
"""The keys that the service itself writes into every header."""


def text_of(value: object) -> str:
    """A JSON value as the text that conditions match: null is empty, a text is itself, anything else its compact JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def reader(key: str) -> Callable[[Header], str]:
    """A function that returns the text under `key`: of the top-level key of that name, else of the dotted path.

    Missing values and elements of arrays are the empty text.
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


FLAGS = "ims"
_METACHARACTERS = frozenset(r"\.+*?()[]{}|^$")

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


def compile_expect(expect: str) -> Callable[[str], bool]:
    """A function that returns whether a text matches `expect`.

    `/re/` with the flags `i`, `m`, `s` matches anywhere in the text. Any other `expect` accepts the text that equals it
    and, when it is a regular expression, each text that it matches as a whole.

    Raises WrongParameter for a `/re/` that does not compile or has other flags.
    """
    if (slashed := _slashed(expect)) is not None:
        return _searching(expect, *slashed)
    if _METACHARACTERS.isdisjoint(expect):
        return expect.__eq__
    try:
        pattern = _compile(expect)
    except ValueError:
        return expect.__eq__
    return lambda text: text == expect or pattern.fullmatch(_utf8(text)) is not None


def _slashed(expect: str) -> tuple[str, str] | None:
    """Body and flags of a text that begins with `/` and has a later unescaped `/` followed only by letters."""
    head, _, letters = expect.rpartition("/")
    escaped = (len(head) - len(head.rstrip("\\"))) % 2
    if not head.startswith("/") or escaped or not (letters.isalpha() or letters == ""):
        return None
    return head[1:], letters


def _searching(expect: str, body: str, flags: str) -> Callable[[str], bool]:
    if not set(flags) <= set(FLAGS):
        raise WrongParameter(
            f'"{cut(expect)}" reads as a regular expression with the flags "{cut(flags)}" (there are i, m and s); '
            f"a path is written ^{cut(expect)}$"
        )
    try:
        pattern = _compile(f"(?{flags}){body}" if flags else body)
    except ValueError as error:
        raise WrongParameter(f'"{cut(expect)}" holds no valid regular expression (RE2): {cut(str(error))}') from error
    return lambda text: pattern.search(_utf8(text)) is not None


def _compile(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else reason) from error


def _utf8(text: str) -> bytes:
    # RE2 would encode a str on each call and map offsets back to characters, and would fail on unpaired surrogates.
    return text.encode("utf-8", "replace")
