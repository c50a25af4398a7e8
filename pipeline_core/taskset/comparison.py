"""Two versions of a TaskSet, compared: the JSON Patch (RFC 6902) that turns the one into the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonpointer import JsonPointer

from pipeline_core.taskset.change import Operation
from pipeline_core.taskset.values import Json, equal, identity
from pipeline_core.validation.errors import Path


def patch_between(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Operation]:
    """The operations that turn `before` into `after`. New elements of a list are added where they stand, so that each operation
    names only what is new or different. `before` is None where there was nothing yet."""
    if before is None:
        return [{"op": "replace", "path": "", "value": dict(after)}]
    return list(_between((), before, after))


def _between(path: Path, before: Json, after: Json) -> Iterator[Operation]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from ({"op": "remove", "path": _pointer((*path, key))} for key in before if key not in after)
        for key, value in after.items():
            if key in before:
                yield from _between((*path, key), before[key], value)
            else:
                yield {"op": "add", "path": _pointer((*path, key)), "value": value}
    elif isinstance(before, list) and isinstance(after, list) and (places := _places(path, before, after)) is not None:
        for index, value in enumerate(after):
            if index in places:
                yield from _between((*path, index), before[places[index]], value)
            else:
                yield {"op": "add", "path": _pointer((*path, index)), "value": value}
    elif not equal(before, after):
        yield {"op": "replace", "path": _pointer(path), "value": after}


def _places(path: Path, before: list[Json], after: list[Json]) -> dict[int, int] | None:
    """Of each old element its index after and before; None when some of them are gone or have another order."""
    if len(before) == len(after):
        return {index: index for index in range(len(before))}
    field = path[-1] if path else ""
    places: dict[int, int] = {}
    for index, value in enumerate(after):
        old = len(places)
        if old < len(before) and identity(field, value) == identity(field, before[old]):
            places[index] = old
    return places if len(places) == len(before) else None


def _pointer(path: Path) -> str:
    return str(JsonPointer.from_parts(path).path)
