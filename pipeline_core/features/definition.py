"""A feature as a client registers it: checked values, and reserved words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline_core.errors import UnsupportedPluginType
from pipeline_core.plugins.types import FailurePolicy, Mode, PluginType, Resumer
from pipeline_core.selectors import Selector
from pipeline_core.validation.texts import shown

EVERYONE = "all"
"""Means all authors when features are listed; reserved, so no feature and no author may have this name."""

RESERVED_NAMES = frozenset({"what-if"})
"""No names of features: other paths have these words in the place of a name."""

SECRET_SET = "set"
"""The placeholder for a secret in responses. In a request it means to keep the stored secret."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginDefinition:
    """A plugin of a feature. `selector` is the JSON as given, None for none; `effective` is merged with the feature's.

    A `mode` that is not given means active. `shadow_of` is the key of the plugin that a shadow is to replace, empty for none.
    """

    type: PluginType
    address: str
    description: str
    selector: dict[str, Any] | None
    effective: Selector
    timeout_seconds: int
    max_attempts: int
    patience_seconds: int
    failure_policy: FailurePolicy
    resumer: Resumer = Resumer.WRITER
    mode: Mode | None = None
    shadow_of: str = ""

    def key(self, feature: str, author: str) -> str:
        """The plugin's key as part of this feature."""
        return f"{self.type}.{feature}.{author}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureDefinition:
    """A feature. `authorization` and `signing_secret` are empty for none, SECRET_SET to keep the stored one, or plain text."""

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
    """A request that the plugin `before` is called before the plugin `after`; these are keys of plugins of this type."""

    before: str
    after: str
    type: PluginType


def parse_type(text: str) -> PluginType:
    """The plugin type of that name. Raises UnsupportedPluginType."""
    try:
        return PluginType(text)
    except ValueError:
        raise UnsupportedPluginType(f"{shown(text)} is no plugin type; there are {', '.join(PluginType)}") from None
