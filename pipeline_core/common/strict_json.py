"""Strict JSON (RFC 8259) without values that the service cannot store, for the bodies that users and plugins send."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 100
"""Levels of objects and arrays: code that walks a document may use recursion."""

_QUOTED = 60


class NotStrict(ValueError):
    """The document is not strict JSON. The message is a predicate to put after a subject ("The body …")."""


def parse(raw: bytes) -> Any:
    """The document in `raw`, with the keys in their order.

    Raises NotStrict unless it is UTF-8 and JSON, without NaN and infinities, without duplicate keys in an object,
    without NUL and unpaired surrogates (PostgreSQL stores neither), and at most MAX_DEPTH levels deep.
    """
    try:
        text = raw.decode("utf-8")
        document = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise NotStrict(f"is not UTF-8: byte {error.start} is no part of a character") from None
    except json.JSONDecodeError as error:
        hint = "; it begins with a byte order mark" if raw.startswith(b"\xef\xbb\xbf") else ""
        raise NotStrict(f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno}){hint}") from None
    except RecursionError:
        raise NotStrict(_TOO_DEEP) from None
    except NotStrict:
        raise
    except ValueError as error:
        # Python refuses to parse integers with thousands of digits.
        raise NotStrict("has a number with more digits than the service can hold") from error
    # Only an escape can contain a NUL or an unpaired surrogate, and nesting too deeply takes more than MAX_DEPTH brackets.
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        _check(document)
    return document


def _check(document: Any) -> None:
    level, depth = [document], 0
    while level:
        below: list[Any] = []
        for node in level:
            if isinstance(node, str):
                _check_text(node)
            elif isinstance(node, dict | list):
                if depth == MAX_DEPTH:
                    raise NotStrict(_TOO_DEEP)
                below += node
                below += node.values() if isinstance(node, dict) else ()
        level, depth = below, depth + 1


def _check_text(text: str) -> None:
    if "\0" in text:
        raise NotStrict(f"has the text {text[:_QUOTED]!a} with a NUL character, which cannot be stored")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise NotStrict(f"has the text {text[:_QUOTED]!a} with an unpaired surrogate, which is no character") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise NotStrict(f'has an object with the key "{twice[:_QUOTED]}" twice')
    return members


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotStrict(f"has the number {text[:_QUOTED]}, which is too large")
    return number


def _constant(text: str) -> NoReturn:
    raise NotStrict(f"has {text}, which is not a number in JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)
_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"
