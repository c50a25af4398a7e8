"""What a plugin's answer adds to a TaskSet, as a value, and the same as a JSON Patch (RFC 6902).

The patch is what the trail records, and how a change is applied.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonpatch import JsonPatch
from jsonpointer import JsonPointer

from pipeline_core.taskset.values import Json, at
from pipeline_core.validation.errors import Path


@dataclass(frozen=True, slots=True)
class Put:
    """A new key of an object: `path` ends with it."""

    path: Path
    value: Json


@dataclass(frozen=True, slots=True)
class Replace:
    """Another value for an existing key, which only binders may set, and only for some keys."""

    path: Path
    value: Json


@dataclass(frozen=True, slots=True)
class Insert:
    """A new element of the list at `path`, before the old element with index `before`, or at the end when there is none."""

    path: Path
    before: int
    value: Json


@dataclass(frozen=True, slots=True)
class Prepend:
    """Text in front of the text at `path`, which is a script."""

    path: Path
    text: str


Entry = Put | Replace | Insert | Prepend


@dataclass(frozen=True, slots=True)
class TaskSetChange:
    """All that one answer, or several merged ones, add. Paths and indices are those in the document that was given.

    Truthy unless it is empty. The values in the entries must not be changed.
    """

    entries: tuple[Entry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)


Operation = dict[str, Any]


def patch(base: Mapping[str, Any], change: TaskSetChange) -> list[Operation]:
    """The operations that turn `base`, the document that the change was found against, into the changed one."""
    inserts = [entry for entry in change.entries if isinstance(entry, Insert)]
    operations: list[Operation] = []
    for entry in change.entries:
        if isinstance(entry, Put):
            operations.append({"op": "add", "path": _pointer(entry.path), "value": entry.value})
        elif isinstance(entry, Prepend):
            text = entry.text + at(base, entry.path)
            operations.append({"op": "replace", "path": _pointer(entry.path), "value": text})
        elif not isinstance(entry, Insert):
            operations.append({"op": "replace", "path": _pointer(entry.path), "value": entry.value})
    # Inner lists before outer ones and the last element first: so no insertion moves what a later operation points at.
    inserts.reverse()
    for insert in sorted(inserts, key=lambda insert: (-len(insert.path), -insert.before)):
        operations.append({"op": "add", "path": _pointer((*insert.path, insert.before)), "value": insert.value})
    return operations


def apply(base: Mapping[str, Any], change: TaskSetChange) -> dict[str, Any]:
    """The changed document, sharing nothing with `base` or the change."""
    document: dict[str, Any] = JsonPatch(copy.deepcopy(patch(base, change))).apply(base)
    return document


def _pointer(path: Path) -> str:
    return str(JsonPointer.from_parts(path).path)
