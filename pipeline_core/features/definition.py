"""A feature as a client registers it: checked values, and names that have a meaning of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline_core.errors import UnsupportedPluginType
from pipeline_core.plugins.types import FailurePolicy, PluginType
from pipeline_core.selectors import Selector
from pipeline_core.validation.texts import shown

EVERYONE = "all"
"""Stands for every author where features are listed, so that no feature and no author may be called so."""

SECRET_SET = "set"
"""What answers show in place of a secret. Sent back, it means the one that is stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginDefinition:
    """`selector` is the JSON as given, None for none; `effective` is merged with the feature's."""

    type: PluginType
    address: str
    description: str
    selector: dict[str, Any] | None
    effective: Selector
    timeout_seconds: int
    max_attempts: int
    patience_seconds: int
    failure_policy: FailurePolicy

    def key(self, feature: str, author: str) -> str:
        """What the plugin is known by, once it is part of this feature."""
        return f"{self.type}.{feature}.{author}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureDefinition:
    """`authorization` and `signing_secret` are empty for none, `SECRET_SET` for the stored one, or in clear."""

    name: str
    author: str
    description: str
    enabled: bool
    authorization: str = field(repr=False)
    signing_secret: str = field(repr=False)
    selector: dict[str, Any] | None
    plugins: tuple[PluginDefinition, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginOrder:
    """Which plugin is to run before which, by their keys; both are of this type."""

    before: str
    after: str
    type: PluginType


def parse_type(text: str) -> PluginType:
    """The plugin type of that name. Raises UnsupportedPluginType."""
    try:
        return PluginType(text)
    except ValueError:
        raise UnsupportedPluginType(f"{shown(text)} is no plugin type; there are {', '.join(PluginType)}") from None
