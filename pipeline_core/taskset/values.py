"""JSON values: their equality, what identifies the elements of lists, what no value may contain, and errors by path.

The keys of list elements are those of a strategic merge patch, `x-kubernetes-list-map-keys` in the Kubernetes API reference.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from pipeline_core.validation.errors import Path, ValidationErrors, path_text
from pipeline_core.validation.texts import cut

Json = Any
"""None, a boolean, a number, a text, a list or a dictionary with texts as keys: what `json.loads` gives."""

MAX_DEPTH = 64
"""Levels of objects and lists in a document. Recursive functions rely on this limit."""

_SHOWN = 60


def at(document: Json, path: Path) -> Json:
    """The value at `path`. Raises KeyError, IndexError or TypeError when there is none."""
    for part in path:
        document = document[part]
    return document


def shown(value: Json) -> str:
    """A short description of `value` for an error message."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    text = json.dumps(cut(value, _SHOWN) if isinstance(value, str) else value, ensure_ascii=False)
    return text if isinstance(value, str) else cut(text, _SHOWN)


def difference(one: Json, other: Json) -> Path:
    """The path of the first place at which two values that are not equal differ; an empty one when that is the whole."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [
            key for key in {**one, **other} if key not in one or key not in other or not equal(one[key], other[key])
        ]
    elif isinstance(one, list) and isinstance(other, list):
        keys = [index for index, (a, b) in enumerate(zip(one, other, strict=False)) if not equal(a, b)]
    else:
        return ()
    # Of lists, one of which begins with the other, neither has a place of its own.
    if not keys:
        return ()
    key = keys[0]
    return (key, *difference(one[key], other[key])) if _has(one, key) and _has(other, key) else (key,)


def _has(value: Json, key: str | int) -> bool:
    return isinstance(value, list) or key in value


def contrasted(one: str, other: str) -> tuple[str, str]:
    """Two texts that differ, each cut to the part in which they do."""
    common = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    start = max(0, common - _SHOWN // 2) if max(len(one), len(other)) > _SHOWN else 0
    first, second = (
        f"{'…' if start else ''}{text[start : start + _SHOWN]}{'…' if len(text) > start + _SHOWN else ''}"
        for text in (one, other)
    )
    return first, second


def frozen(value: Json) -> Hashable:
    """A hashable value that is equal for equal JSON: for `1` and `1.0`, not for `1` and `true`."""
    if isinstance(value, dict):
        return "object", frozenset((key, frozen(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return "list", tuple(map(frozen, value))
    if isinstance(value, bool):
        return "boolean", value
    scalar: Hashable = value
    return scalar


def equal(one: Json, other: Json) -> bool:
    """Whether two JSON values are the same, by `frozen`."""
    return frozen(one) == frozen(other)


def unusable(document: Json) -> tuple[Path, str] | None:
    """The first path with a value that cannot be stored or is nested too deep, and what is wrong there; None when all is well.

    Does not recurse, so it works for any nesting.
    """
    open_levels: list[Iterator[tuple[str | int, Json]]] = [iter([("", document)])]
    path: list[str | int] = []
    while open_levels:
        for key, value in open_levels[-1]:
            if problem := _problem(key) or _problem(value):
                return (*path, key)[1:], problem
            if isinstance(value, dict | list):
                if len(open_levels) > MAX_DEPTH:
                    return (*path, key)[1:], f"is nested more than {MAX_DEPTH} levels deep"
                path.append(key)
                open_levels.append(iter(value.items()) if isinstance(value, dict) else enumerate(value))
                break
        else:
            open_levels.pop()
            del path[-1:]
    return None


def _problem(value: Json) -> str | None:
    if isinstance(value, str):
        if "\0" in value:
            return "contains the character NUL, which cannot be stored"
        if not value.isascii() and re.search("[\ud800-\udfff]", value):
            return "contains half of a surrogate pair, which is no text"
    elif isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which is no JSON number"
    elif value is not None and not isinstance(value, bool | int | float | dict | list):
        return f"is a {type(value).__name__}, which is no JSON value"
    return None


MERGE_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "containers": ("name",),
        "initContainers": ("name",),
        "volumes": ("name",),
        "env": ("name",),
        "imagePullSecrets": ("name",),
        "roles": ("name",),
        "volumeMounts": ("mountPath",),
        "ports": ("containerPort", "protocol"),
        "hostAliases": ("ip",),
    }
)
"""Name of a list → the fields that together identify one of its elements."""

_DEFAULTS = {"protocol": "TCP"}


def merge_key(field: str | int, element: Json) -> tuple[Hashable, ...] | None:
    """The key of `element` in the list `field`; None when such elements have no key."""
    keys = MERGE_KEYS.get(field) if isinstance(field, str) else None
    if keys is None or not isinstance(element, dict):
        return None
    values = [element.get(key) or _DEFAULTS.get(key) for key in keys]
    return None if None in values else tuple(map(frozen, values))


def identity(field: str | int, element: Json) -> Hashable:
    """A value that is equal for two elements of the list `field` that are the same by their key, or are equal."""
    key = merge_key(field, element)
    return ("equal", frozen(element)) if key is None else ("key", key)


def identified(document: Json, path: Path) -> tuple[Hashable, ...]:
    """`path` with the identity of the element in place of each index: it is the same after elements were inserted."""
    parts: list[Hashable] = []
    field: str | int = ""
    for part in path:
        document = document[part]
        parts.append(identity(field, document) if isinstance(part, int) else part)
        field = part
    return tuple(parts)


FieldError = tuple[Path, str]
"""A path, and a sentence of which it is the subject."""

MAX_COUNTED = 1000
"""Errors after which a check ends: some documents could have hundreds of thousands, and each takes time to describe."""


def collect_errors(found: Iterable[FieldError]) -> ValidationErrors:
    """The errors; of more than MAX_COUNTED the iterator is not read to its end."""
    errors = ValidationErrors()
    for number, (path, sentence) in enumerate(found):
        if number == MAX_COUNTED:
            errors.leave_out_rest()
            break
        errors.add(path_text(path), sentence)
    return errors
