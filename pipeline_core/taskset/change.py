"""What a plugin's answer adds to a TaskSet, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_core.taskset.values import Json
from pipeline_core.validation.errors import Path


@dataclass(frozen=True, slots=True)
class Put:
    """A key that the object has not had: `path` ends with it."""

    path: Path
    value: Json


@dataclass(frozen=True, slots=True)
class Replace:
    """Another value in the place of an old one; only binders may, and only in some places."""

    path: Path
    value: Json


@dataclass(frozen=True, slots=True)
class Insert:
    """A new element of the list at `path`, before the old element at index `before`; behind all when there is none."""

    path: Path
    before: int
    value: Json


@dataclass(frozen=True, slots=True)
class Prepend:
    """Text before the text at `path`: a script's."""

    path: Path
    text: str


Entry = Put | Replace | Insert | Prepend


@dataclass(frozen=True, slots=True)
class Change:
    """All that one answer, or several merged ones, add. Paths and indices are those of the document that was given.

    Truthy when there is anything. The values in the entries belong to the change: nobody may alter them.
    """

    entries: tuple[Entry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)
