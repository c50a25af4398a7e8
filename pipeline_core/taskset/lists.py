"""By what the elements of lists are told apart: the merge keys of Kubernetes, else their whole value.

The keys are those of a strategic merge patch, `x-kubernetes-list-map-keys` in the Kubernetes API reference.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType

from pipeline_core.taskset.values import Json, frozen
from pipeline_core.validation.errors import Path

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
"""Name of a list → the fields that together name one of its elements."""

_DEFAULTS = {"protocol": "TCP"}


def merge_key(field: str | int, element: Json) -> tuple[Hashable, ...] | None:
    """What names `element` in the list called `field`; None when such elements have no name."""
    keys = MERGE_KEYS.get(field) if isinstance(field, str) else None
    if keys is None or not isinstance(element, dict):
        return None
    values = [element.get(key) or _DEFAULTS.get(key) for key in keys]
    return None if None in values else tuple(map(frozen, values))


def identity(field: str | int, element: Json) -> Hashable:
    """Equal for two elements of the list called `field` when they stand for the same thing."""
    key = merge_key(field, element)
    return ("equal", frozen(element)) if key is None else ("key", key)


def identified(document: Json, path: Path) -> tuple[Hashable, ...]:
    """`path` with each index replaced by its element's identity: it survives elements being added before it."""
    parts: list[Hashable] = []
    field: str | int = ""
    for part in path:
        document = document[part]
        parts.append(identity(field, document) if isinstance(part, int) else part)
        field = part
    return tuple(parts)
