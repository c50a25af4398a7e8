"""A feature as a client registers it: read from JSON and checked as a whole."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pipeline_core.errors import UnsupportedPluginType, WrongParameter
from pipeline_core.plugins.network import check_address
from pipeline_core.plugins.packet import check_secret
from pipeline_core.plugins.types import FailurePolicy, PluginType
from pipeline_core.selectors import Selector, merge, parse_selector
from pipeline_core.settings import Network
from pipeline_core.validation.body import Body, Check
from pipeline_core.validation.texts import header_value, shown

EVERYONE = "all"
"""Stands for every author where features are listed, so that no feature and no author may be called so."""

SECRET_SET = "set"
"""What answers show in place of a secret. Sent back, it means the one that is stored."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_AUTHOR_LENGTH = range(1, 64)
_TIMEOUT_SECONDS = range(1, 301)
_MAX_ATTEMPTS = range(1, 11)
_PATIENCE_SECONDS = range(86_401)


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


def read_feature(raw: object, networks: Sequence[Network] = ()) -> FeatureDefinition:
    """The feature that `raw`, parsed JSON, registers. `networks` are those that plugins may live in; empty means all.

    What an answer about a feature shows can be sent back as it is.

    Raises MissingParameter, WrongParameter or UnsupportedPluginType, by what was found first, with the rest of what is
    wrong in `errors`.
    """
    body = Body.of(raw)
    body.ignore("owner")
    name = body.text("name", required=True, check=_name_problem)
    author = body.text("author", required=True, check=_author_problem)
    selector = _read_selector(body)
    plugins = tuple(_read_plugin(plugin, selector, networks) for plugin in body.objects("plugins"))
    feature = FeatureDefinition(
        name=name,
        author=author,
        description=body.text("description"),
        enabled=body.flag("enabled"),
        authorization=body.text("authorization", secret=True, check=_authorization_problem),
        signing_secret=body.text("signingSecret", secret=True, check=_secret_problem),
        selector=body.value("jobSelector"),
        plugins=plugins,
    )
    if not body.errors:
        _refuse_second_of_a_type(body, plugins)
    body.finish()
    return feature


def read_type(body: Body) -> PluginType:
    """The plugin type that a body's `pluginType` names; any when something is wrong with it."""
    text = body.text("pluginType", required=True, default=PluginType.LIFE_HOOK)
    try:
        return parse_type(text)
    except UnsupportedPluginType as error:
        body.add_error("pluginType", error.message, UnsupportedPluginType)
        return PluginType.LIFE_HOOK


def parse_type(text: str) -> PluginType:
    """The plugin type of that name. Raises UnsupportedPluginType."""
    try:
        return PluginType(text)
    except ValueError:
        raise UnsupportedPluginType(f"{shown(text)} is no plugin type; there are {', '.join(PluginType)}") from None


def _read_plugin(body: Body, feature_selector: Selector | None, networks: Sequence[Network]) -> PluginDefinition:
    body.ignore("feature", "enabled")
    type = read_type(body)
    address = body.text("callAddress", required=True, check=_problem_of(partial(check_address, networks=networks)))
    own_selector = _read_selector(body, with_states=type is PluginType.LIFE_HOOK)
    return PluginDefinition(
        type=type,
        address=address,
        description=body.text("description"),
        selector=body.value("jobSelector"),
        effective=_merge(body, feature_selector, own_selector),
        timeout_seconds=body.integer("timeoutSeconds", 30, _TIMEOUT_SECONDS),
        max_attempts=body.integer("maxAttempts", 3, _MAX_ATTEMPTS),
        patience_seconds=body.integer("patienceSeconds", 60, _PATIENCE_SECONDS),
        failure_policy=_read_failure_policy(body, type),
    )


def _read_selector(body: Body, *, with_states: bool = False) -> Selector | None:
    try:
        return parse_selector(body.value("jobSelector"), body.path("jobSelector"), with_states=with_states)
    except WrongParameter as error:
        body.errors.adopt(error)
        return None


def _merge(body: Body, feature: Selector | None, plugin: Selector | None) -> Selector:
    # Beside a selector that could not be read, the other one would be blamed for what it lacks.
    if not body.errors:
        try:
            return merge(feature, plugin, body.path("jobSelector"))
        except WrongParameter as error:
            body.errors.adopt(error)
    return Selector()


def _read_failure_policy(body: Body, type: PluginType) -> FailurePolicy:
    text = body.text("failurePolicy", default=FailurePolicy.FAIL)
    try:
        policy = FailurePolicy(text)
    except ValueError:
        body.add_error("failurePolicy", f"must be {', '.join(FailurePolicy)}, not {shown(text)}")
        return FailurePolicy.FAIL
    if policy is FailurePolicy.IGNORE and type is PluginType.TEMPLATE_TRANSLATOR:
        body.add_error("failurePolicy", f"a {type} cannot be ignored: there is no TaskSet without it")
    return policy


def _refuse_second_of_a_type(body: Body, plugins: Sequence[PluginDefinition]) -> None:
    types = [plugin.type for plugin in plugins]
    for index, type in enumerate(types):
        if type in types[:index]:
            body.add_error(
                ("plugins", index, "pluginType"), f"a feature has at most one plugin of a type; this is another {type}"
            )


def _name_problem(text: str) -> str | None:
    if not _NAME.fullmatch(text):
        return "must be 1 to 63 letters, digits, - and _, first a letter or digit (A-Z, a-z, 0-9)"
    return _reserved_problem(text)


def _author_problem(text: str) -> str | None:
    if len(text) not in _AUTHOR_LENGTH:
        return "must be 1 to 63 characters"
    if text != text.strip() or "/" in text or any(unicodedata.category(character) == "Cc" for character in text):
        return "must have no /, no control characters and no white space around it"
    return _reserved_problem(text)


def _reserved_problem(text: str) -> str | None:
    return f'must be something else: "{EVERYONE}" stands for everyone' if text.casefold() == EVERYONE else None


def _authorization_problem(text: str) -> str | None:
    return None if header_value(text) else "must be printable ASCII without blanks around it: it is sent in a header"


def _secret_problem(text: str) -> str | None:
    return None if text == SECRET_SET else _problem_of(check_secret)(text)


def _problem_of(check: Callable[[str], None]) -> Check:
    """What a check that raises has to say."""

    def problem(text: str) -> str | None:
        try:
            check(text)
        except WrongParameter as error:
            return next(iter(error.errors.values()))[0]
        return None

    return problem
