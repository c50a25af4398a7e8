"""A change as a JSON Patch (RFC 6902): what the trail records, and how a change is applied."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from jsonpatch import JsonPatch
from jsonpointer import JsonPointer

from pipeline_core.taskset.change import Change, Insert, Prepend, Put
from pipeline_core.taskset.values import at
from pipeline_core.validation.errors import Path

Operation = dict[str, Any]


def patch(base: Mapping[str, Any], change: Change) -> list[Operation]:
    """The operations that make the changed document of `base`, the one that the change was found against."""
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


def apply(base: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """The changed document, sharing nothing with `base` or the change."""
    document: dict[str, Any] = JsonPatch(copy.deepcopy(patch(base, change))).apply(base)
    return document


def _pointer(path: Path) -> str:
    return str(JsonPointer.from_parts(path).path)
