"""Merges the changes of several plugins, each found against the same TaskSet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pipeline_core.errors import WrongParameter
from pipeline_core.taskset.additive import COMMANDS, CONTAINERS, FROZEN, pattern_of
from pipeline_core.taskset.change import Entry, Insert, Prepend, TaskSetChange, apply
from pipeline_core.taskset.document import SIDECARS, sidecars
from pipeline_core.taskset.masking import masked
from pipeline_core.taskset.schema import check
from pipeline_core.taskset.values import Json, at, contrasted, difference, equal, identity, merge_key
from pipeline_core.validation.errors import Path, join_path, path_text

E = TypeVar("E", bound=Entry)


class MergeConflict(WrongParameter):
    """Two plugins set the same thing to different values. `plugins` are the two, `path` is where.

    The message has both values, from the first place at which they differ.
    """

    def __init__(self, path: str, first: tuple[str, Json], second: tuple[str, Json]) -> None:
        self.path = path
        self.plugins = (first[0], second[0])
        below = difference(first[1], second[1])
        one, other = contrasted(*(_text_at(masked(value), below) for value in (first[1], second[1])))
        where = join_path(path, *below)
        sentence = f"is set to {one} by {first[0]} and to {other} by {second[0]}"
        right = "right would be: the same value from both, or one of the two plugins only"
        super().__init__(f"Two plugins contradict each other: {where} {sentence}; {right}", errors={where: [sentence]})


def _text_at(value: Json, path: Path) -> str:
    try:
        return json.dumps(at(value, path), ensure_ascii=False)
    except LookupError:
        return "nothing"


def decorated(base: Mapping[str, Any], answers: Sequence[tuple[str, TaskSetChange]]) -> dict[str, Any]:
    """The TaskSet with the changes of `answers` (plugin key, change; in sequence order). Added containers are sidecars.

    The annotation `pipeline/sidecars` on the pod template of the role marks them. Raises MergeConflict, and TaskSetError
    when the changes together make a TaskSet that cannot run.
    """
    change = merge(base, answers)
    document = apply(base, change)
    if change:
        _mark_sidecars(document, change)
        check(document)
    return document


def merge(base: Mapping[str, Any], answers: Sequence[tuple[str, TaskSetChange]]) -> TaskSetChange:
    """The changes merged in the order given, which is the sequence of the plugins. Raises MergeConflict.

    New elements that a plugin put before the first old element of a list come before the old ones, all others after them,
    both by sequence.
    """
    puts: dict[tuple[type[Entry], Path], list[tuple[str, Json]]] = {}
    prepends: dict[Path, list[str]] = {}
    inserts: dict[Path, list[tuple[str, Insert]]] = {}
    for plugin, change in answers:
        for entry in change.entries:
            if isinstance(entry, Insert):
                inserts.setdefault(entry.path, []).append((plugin, entry))
            elif isinstance(entry, Prepend):
                prepends.setdefault(entry.path, []).append(entry.text)
            else:
                puts.setdefault((type(entry), entry.path), []).append((plugin, entry.value))
    entries: list[Entry] = [kind(path, _union(path, given)) for (kind, path), given in puts.items()]  # type: ignore[call-arg]
    entries += [Prepend(path, "".join(texts)) for path, texts in prepends.items()]
    for path, given in inserts.items():
        entries += _inserted(path, len(at(base, path)), given)
    return TaskSetChange(tuple(entries))


def _union(path: Path, given: Sequence[tuple[str, Json]]) -> Json:
    """One value for all that plugins set at one path."""
    (plugin, value), *others = given
    if not others:
        return value
    values = [value for _, value in given]
    whole = pattern_of(path) in FROZEN
    if not whole and all(isinstance(value, dict) for value in values):
        return {
            key: _union((*path, key), [(name, value[key]) for name, value in given if key in value])
            for key in dict.fromkeys(key for value in values for key in value)
        }
    if not whole and all(isinstance(value, list) for value in values):
        elements = [(name, element) for name, value in given for element in value]
        return [elements[index][1] for index in _distinct(path, elements)]
    for name, other in others:
        if not equal(value, other):
            raise MergeConflict(path_text(path), (plugin, value), (name, other))
    return value


def _inserted(path: Path, length: int, given: Sequence[tuple[str, Insert]]) -> list[Entry]:
    kept = [given[index][1] for index in _distinct(path, [(plugin, entry.value) for plugin, entry in given])]
    front = [Insert(path, 0, entry.value) for entry in kept if entry.before == 0]
    return [*front, *(Insert(path, length, entry.value) for entry in kept if entry.before > 0)]


def _distinct(path: Path, given: Sequence[tuple[str, Json]]) -> list[int]:
    """The indices of the elements to keep: all but those that an earlier plugin has added too."""
    if pattern_of(path) in COMMANDS:
        return list(range(len(given)))
    name = path[-1]
    first: dict[Any, tuple[str, Json]] = {}
    kept = []
    for index, (plugin, element) in enumerate(given):
        known = first.setdefault(identity(name, element), (plugin, element))
        if known[0] == plugin:
            kept.append(index)
        elif not equal(known[1], element):
            key = ", ".join(map(str, merge_key(name, element) or ()))
            raise MergeConflict(f"{path_text(path)}[{key}]", known, (plugin, element))
    return kept


def _mark_sidecars(document: dict[str, Any], change: TaskSetChange) -> None:
    """Mark the containers that were added, in a document that is changed in place."""
    added: dict[int, list[str]] = {}
    for entry in change.entries:
        if isinstance(entry, Insert) and pattern_of(entry.path) == CONTAINERS:
            added.setdefault(int(entry.path[2]), []).append(entry.value["name"])
    for index, names in added.items():
        template = document["spec"]["roles"][index]["template"]
        metadata = template["metadata"] = template.get("metadata") or {}
        annotations = metadata["annotations"] = metadata.get("annotations") or {}
        annotations[SIDECARS] = json.dumps([*sidecars(template), *names])
