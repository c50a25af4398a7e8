"""Whether the answer of a decorator or binder only adds to the TaskSet that it was given, and what it adds.

This protects against mistakes and accidental overrides, not against malice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline_core.errors import WrongParameter
from pipeline_core.taskset import pod_policy
from pipeline_core.taskset.change import Entry, Insert, Prepend, Put, Replace, TaskSetChange
from pipeline_core.taskset.command import RIGHT, LeadingScript, growth
from pipeline_core.taskset.document import RESERVED_PREFIX
from pipeline_core.taskset.schema import check
from pipeline_core.taskset.values import FieldError, Json, collect_errors, equal, identity, merge_key, shown
from pipeline_core.validation.errors import Path

Pattern = tuple[str, ...]

ANY = "*"
"""Stands for every index and every key in a pattern."""

_TOKEN = "serviceAccountToken"
ROLES: Pattern = ("spec", "roles")
ROLE: Pattern = (*ROLES, ANY)
POD: Pattern = (*ROLE, "template", "spec")
CONTAINERS: Pattern = (*POD, "containers")
_CONTAINERS: tuple[Pattern, ...] = ((*CONTAINERS, ANY), (*POD, "initContainers", ANY))
_METADATA: tuple[Pattern, ...] = (("metadata",), (*ROLE, "template", "metadata"))

LOCKED: frozenset[Pattern] = frozenset(
    {
        ("apiVersion",),
        ("kind",),
        *((*metadata, key) for metadata in _METADATA for key in ("name", "namespace")),
        ("spec", "activeDeadlineSeconds"),
        *((*ROLE, key) for key in ("name", "replicas", "completionPolicy")),
        *(
            (*POD, key)
            for key in (
                "schedulerName",
                "nodeName",
                "restartPolicy",
                "activeDeadlineSeconds",
                "serviceAccountName",
                "serviceAccount",
                "automountServiceAccountToken",
            )
        ),
        *((*container, key) for container in _CONTAINERS for key in ("args", "restartPolicy")),
    }
)
"""Fields that may not be added, changed or removed."""

FROZEN: frozenset[Pattern] = frozenset(
    {("spec", "retryPolicy"), *((*ROLE, key) for key in ("eventPolicy", "retryPolicy"))},
)
"""Fields that may be added as a whole, but neither changed nor extended."""

COMMANDS: frozenset[Pattern] = frozenset((*container, "command") for container in _CONTAINERS)
"""Fields that may only grow at their front."""

_MAPS: frozenset[Pattern] = frozenset((*metadata, key) for metadata in _METADATA for key in ("labels", "annotations"))

BINDER_MAY_SET: frozenset[Pattern] = frozenset(
    {
        *((*POD, key) for key in ("schedulerName", "priorityClassName")),
        *((*ROLE, "template", "metadata", key, ANY) for key in ("labels", "annotations")),
    }
)
"""Fields that a binder may also set or replace."""


class NotAdditive(WrongParameter):
    """The answer does more than add to the TaskSet."""


def decoration(
    base: Mapping[str, Any], answer: Json, policy: pod_policy.PodPolicy = pod_policy.BASELINE
) -> TaskSetChange:
    """What the `answer` of a TemplateDecorator, any JSON value, adds to `base`, a checked TaskSet.

    Raises TaskSetError when the answer is not a TaskSet that can run, NotAdditive when it changes, moves or removes
    something or adds what a decorator may not, PodPolicyError when an addition violates the policy.
    """
    return _change(base, answer, policy, frozenset(), "decorator")


def binding(base: Mapping[str, Any], answer: Json, policy: pod_policy.PodPolicy = pod_policy.BASELINE) -> TaskSetChange:
    """What the `answer` of a SchedulerBinder does to `base`: as `decoration`, but it may also set BINDER_MAY_SET."""
    return _change(base, answer, policy, BINDER_MAY_SET, "binder")


def _change(
    base: Mapping[str, Any], answer: Json, policy: pod_policy.PodPolicy, free: frozenset[Pattern], who: str
) -> TaskSetChange:
    check(answer)
    comparison = _Comparison(free, who)
    comparison.compare((), base, answer)
    comparison.errors += _added_tokens(base, answer, who)
    if errors := collect_errors(comparison.errors):
        raise NotAdditive(f"The answer does not only add: {errors.sentence(' ')}", errors=errors.by_path)
    pod_policy.check_added(base, answer, policy)
    return TaskSetChange(tuple(comparison.entries))


@dataclass(slots=True)
class _Comparison:
    """Compares both documents. Paths are those in the base; of additions, those in the answer."""

    free: frozenset[Pattern]
    who: str
    entries: list[Entry] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)

    def compare(self, path: Path, old: Json, new: Json) -> None:
        pattern = pattern_of(path)
        if self._may_set(path, pattern):
            if not equal(old, new):
                self.entries.append(Replace(path, new))
        elif pattern in LOCKED or pattern in FROZEN:
            if not equal(old, new):
                self._refuse(path, f"was changed, which a {self.who} may not do", old)
        elif old is None and new is not None:
            # As if the key were not there: so reads Kubernetes, too.
            if self._may_add(path, new):
                self.entries.append(Put(path, new))
        elif pattern in COMMANDS and isinstance(old, list) and isinstance(new, list):
            self._command(path, old, new)
        elif isinstance(old, dict) and isinstance(new, dict):
            self._objects(path, old, new)
        elif isinstance(old, list) and isinstance(new, list):
            self._lists(path, old, new)
        elif not equal(old, new):
            self._refuse(path, f"is {shown(new)}; a {self.who} may only add", old)

    def _objects(self, path: Path, old: dict[str, Json], new: dict[str, Json]) -> None:
        for key, value in old.items():
            if key in new:
                self.compare((*path, key), value, new[key])
            else:
                self._refuse((*path, key), f"was removed; a {self.who} may only add", value)
        for key, value in new.items():
            if key not in old and self._may_add((*path, key), value):
                self.entries.append(Put((*path, key), value))

    def _lists(self, path: Path, old: list[Json], new: list[Json]) -> None:
        name = path[-1]
        wanted = [identity(name, element) for element in old]
        taken = set(wanted)
        position = 0
        for index, element in enumerate(new):
            found = identity(name, element)
            if position < len(old) and found == wanted[position]:
                self.compare((*path, position), old[position], element)
                position += 1
            elif pattern_of(path) == ROLES:
                self._add_error((*path, index), f"was added; a {self.who} may add no roles")
            elif merge_key(name, element) is not None and found in taken:
                self._add_error((*path, index), "is there twice or was moved; right would be: each once, as before")
            else:
                taken.add(found)
                self.entries.append(Insert(path, position, element))
        for missing in range(position, len(old)):
            self._refuse((*path, missing), "was removed, moved or changed beyond recognition", old[missing])

    def _command(self, path: Path, old: list[Json], new: list[Json]) -> None:
        grown = growth(old, new)
        if grown is None:
            self._add_error(path, f"is {shown(new)} that does not end as before; right would be: {RIGHT}")
        elif isinstance(grown, LeadingScript):
            self.entries.append(Prepend((*path, grown.index), grown.text))
        else:
            self.entries.extend(Insert(path, 0, word) for word in grown.words)

    def _may_set(self, path: Path, pattern: Pattern) -> bool:
        return (pattern in self.free or (*pattern[:-1], ANY) in self.free) and not _reserved(path, pattern)

    def _may_add(self, path: Path, value: Json) -> bool:
        """Whether a new key may be added with all that it has; if not, the error is noted."""
        pattern = pattern_of(path)
        if self._may_set(path, pattern):
            return True
        if pattern in LOCKED or pattern in COMMANDS or _reserved(path, pattern):
            self._add_error(path, f"was added, which a {self.who} may not do; right would be: to leave it out")
            return False
        return not isinstance(value, dict) or all(self._may_add((*path, key), inner) for key, inner in value.items())

    def _refuse(self, path: Path, sentence: str, old: Json) -> None:
        self._add_error(path, f"{sentence}; right would be: {shown(old)} as it was")

    def _add_error(self, path: Path, sentence: str) -> None:
        self.errors.append((path, sentence))


def _added_tokens(base: Any, answer: Any, who: str) -> Iterator[FieldError]:
    """Service account tokens that the answer projects into pods, and the base does not."""
    before = {(role, volume["name"]): sources for role, _, volume, sources in _projections(base)}
    for role, index, volume, sources in _projections(answer):
        known = before.get((role, volume["name"]), [])
        for position, source in enumerate(sources):
            if source.get(_TOKEN) is not None and source not in known:
                pod: Path = (*ROLES, role, "template", "spec")
                path = (*pod, "volumes", index, "projected", "sources", position, _TOKEN)
                yield path, f"was added, which a {who} may not do; right would be: to leave it out"


def _projections(document: Any) -> Iterator[tuple[int, int, Any, Any]]:
    """The projected volumes with their sources, each by the indices of its role and in the pod."""
    for role, described in enumerate(document["spec"]["roles"]):
        for index, volume in enumerate(described["template"]["spec"].get("volumes") or []):
            sources = (volume.get("projected") or {}).get("sources")
            if sources:
                yield role, index, volume, sources


def pattern_of(path: Path) -> Pattern:
    """The path with ANY in place of each index."""
    return tuple(part if isinstance(part, str) else ANY for part in path)


def _reserved(path: Path, pattern: Pattern) -> bool:
    return pattern[:-1] in _MAPS and str(path[-1]).startswith(RESERVED_PREFIX)
