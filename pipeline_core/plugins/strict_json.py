"""JSON as RFC 8259 has it, and as the rest of the service can hold it."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn

from pipeline_core.plugins.failures import BadAnswer

MAX_DEPTH = 100
"""Levels of objects and arrays; code that walks a document may use recursion."""


def parse(body: bytes) -> Any:
    """The document in `body`.

    Raises BadAnswer unless it is UTF-8 and JSON, without NaN and infinities, without an object that has a key twice,
    without NUL and unpaired surrogates (PostgreSQL stores neither), and at most MAX_DEPTH levels deep.
    """
    try:
        document = _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadAnswer(f"its answer is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise BadAnswer(f"its answer is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise BadAnswer(_TOO_DEEP) from None
    except ValueError as error:
        raise BadAnswer(f"its answer is not JSON: {error}") from None
    _check(document, texts=b"\\u" in body or b"\x00" in body)
    return document


def _check(document: Any, *, texts: bool) -> None:
    level = [document]
    for _ in range(MAX_DEPTH + 1):
        if texts:
            _check_texts(level)
        level = [child for node in level for child in _children(node)]
        if not level:
            return
    raise BadAnswer(_TOO_DEEP)


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return [*node, *node.values()]
    return node if isinstance(node, list) else []


def _check_texts(nodes: list[Any]) -> None:
    for node in nodes:
        if not isinstance(node, str):
            continue
        if "\x00" in node:
            raise BadAnswer("its answer has a text with a NUL character, which cannot be stored")
        if any("\ud800" <= char <= "\udfff" for char in node):
            raise BadAnswer("its answer has a text with an unpaired surrogate, which is no character")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"an object has the key {counts.most_common(1)[0][0][:50]!r} twice")
    return members


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)
_TOO_DEEP = f"its answer is more than {MAX_DEPTH} levels deep"
