"""The plugins that jobs are matched against: those of all enabled features, compiled once per process and registry version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import ColumnElement, Connection, Engine, select, true
from sqlalchemy.orm import Session

from pipeline_core.common.encryption import decrypt
from pipeline_core.database import transaction
from pipeline_core.database.engine import engine
from pipeline_core.database.models import Feature, Plugin, Registry, table
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.types import FailurePolicy, Mode, PluginType, Resumer
from pipeline_core.runtime import part
from pipeline_core.selectors import Matcher, Selector, compile, parse_selector
from pipeline_core.states import JobState

Header = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredPlugin:
    """A plugin, ready to be matched and called.

    `authorization` and `signing_secret` are in plain text, empty when there are none. `selector` is the effective one, merged
    with the feature's. `states` are those whose events a LifeHook gets. `position` orders plugins of one type. `shadow_of` is the
    key of the plugin that a shadow is to replace, empty for none.
    """

    key: str
    feature: str
    owner: str
    type: PluginType
    address: str
    authorization: str = field(default="", repr=False)
    signing_secret: str = field(default="", repr=False)
    selector: Selector
    matcher: Matcher = field(repr=False, compare=False)
    states: frozenset[JobState]
    position: int
    timeout_seconds: int
    max_attempts: int
    patience_seconds: int
    failure_policy: FailurePolicy
    resumer: Resumer = Resumer.WRITER
    mode: Mode = Mode.ACTIVE
    shadow_of: str = ""

    def matches(self, header: Header) -> bool:
        """Whether the plugin's selector matches a job with this header."""
        return self.matcher.matches(header)

    @property
    def endpoint(self) -> Endpoint:
        """What a call of this plugin needs."""
        return Endpoint(
            key=self.key,
            type=self.type,
            address=self.address,
            authorization=self.authorization,
            signing_secret=self.signing_secret,
            timeout_seconds=self.timeout_seconds,
            max_attempts=self.max_attempts,
        )


class Snapshot:
    """The plugins at one version of the registry: those of enabled features, unless said otherwise. Immutable.

    Shadows are apart: only `shadows` and `shadow` have them.
    """

    def __init__(self, version: int, plugins: Iterable[RegisteredPlugin]) -> None:
        self.version = version
        every = sorted(plugins, key=lambda plugin: plugin.position)
        ordered = [plugin for plugin in every if plugin.mode is Mode.ACTIVE]
        self._by_key = {plugin.key: plugin for plugin in ordered}
        self._by_type = {type: tuple(plugin for plugin in ordered if plugin.type is type) for type in PluginType}
        self._shadows = {plugin.key: plugin for plugin in every if plugin.mode is Mode.SHADOW}

    def of(self, type: PluginType) -> tuple[RegisteredPlugin, ...]:
        """The plugins of a type, in sequence order."""
        return self._by_type[type]

    def matching(self, type: PluginType, header: Header) -> tuple[RegisteredPlugin, ...]:
        """The plugins of a type that match a job with this header, in sequence order."""
        return tuple(plugin for plugin in self._by_type[type] if plugin.matches(header))

    def subscribers(self, header: Header, state: JobState) -> tuple[RegisteredPlugin, ...]:
        """The LifeHooks that get the event that a job with this header is now in `state`, in sequence order."""
        hooks = self._by_type[PluginType.LIFE_HOOK]
        return tuple(plugin for plugin in hooks if state in plugin.states and plugin.matches(header))

    def get(self, key: str) -> RegisteredPlugin | None:
        """The plugin with this key; None when there is none, it is a shadow, or its feature is disabled."""
        return self._by_key.get(key)

    @property
    def has_shadows(self) -> bool:
        """Whether there is any shadow."""
        return bool(self._shadows)

    def shadows(self, type: PluginType | None = None) -> tuple[RegisteredPlugin, ...]:
        """The shadows of a type, or of all types."""
        return tuple(plugin for plugin in self._shadows.values() if type is None or plugin.type is type)

    def shadow(self, key: str) -> RegisteredPlugin | None:
        """The shadow with this key; None when there is none, or its feature is disabled."""
        return self._shadows.get(key)


@part
def _latest() -> WeakKeyDictionary[Engine | Connection, Snapshot]:
    """The snapshot that was compiled last, by database."""
    return WeakKeyDictionary()


_VERSION = select(table(Registry).c.version)
_CHANGING = "registry is changing"


def keep_private(session: Session) -> None:
    """Do not cache snapshots that `session` reads from now on: they may contain changes that are never committed."""
    session.info[_CHANGING] = True


def current(session: Session) -> Snapshot:
    """The current snapshot: one small query, and a compilation only after a change."""
    return at(session, session.execute(_VERSION).scalar_one())


def known(session: Session) -> Snapshot:
    """The snapshot that this process has, which may be an old one: whoever uses it compares its version afterwards."""
    snapshot = None if session.info.get(_CHANGING) else _latest().get(session.get_bind())
    return snapshot or current(session)


def latest() -> Snapshot | None:
    """The snapshot that this process has, without a session; None if it has none yet."""
    return _latest().get(engine())


def at(session: Session, version: int) -> Snapshot:
    """The snapshot at `version`, which the caller has just read; a later one when the registry has changed since."""
    if session.info.get(_CHANGING):
        return _compile(session)
    database = session.get_bind()
    snapshot = _latest().get(database)
    if snapshot is None or snapshot.version != version:
        snapshot = _latest()[database] = _compile(session)
    return snapshot


def of_version(version: int) -> Snapshot:
    """The same for who has read `version` in a transaction that is over. Raises Unavailable."""
    found = latest()
    if found is not None and found.version == version:
        return found
    with transaction() as session:
        return at(session, version)


def with_disabled(session: Session) -> tuple[Snapshot, Snapshot]:
    """The current snapshot, and a second one of the plugins of disabled features, at the same version."""
    version, rows = _read(session, true())
    return (
        Snapshot(version, [_registered(plugin, feature) for plugin, feature in rows if feature.enabled]),
        Snapshot(version, [_registered(plugin, feature) for plugin, feature in rows if not feature.enabled]),
    )


def _compile(session: Session) -> Snapshot:
    version, rows = _read(session, Feature.enabled.is_(True))
    return Snapshot(version, [_registered(plugin, feature) for plugin, feature in rows])


def _read(session: Session, which: ColumnElement[bool]) -> tuple[int, list[tuple[Plugin, Feature]]]:
    # Version and plugins come from one statement, so that they are consistent.
    rows = session.execute(
        select(Registry.version, Plugin, Feature)
        .select_from(Registry)
        .outerjoin(Feature, which)
        .outerjoin(Plugin, Plugin.feature_id == Feature.id)
        .execution_options(populate_existing=True)
    ).all()
    return rows[0].version, [(plugin, feature) for _, plugin, feature in rows if plugin]


def _registered(plugin: Plugin, feature: Feature) -> RegisteredPlugin:
    type = PluginType(plugin.type)
    selector = parse_selector(
        plugin.effective_selector, f"{plugin.key}.jobSelector", with_states=type is PluginType.LIFE_HOOK
    )
    selector = selector or Selector()
    return RegisteredPlugin(
        key=plugin.key,
        feature=feature.name,
        owner=feature.owner,
        type=type,
        address=plugin.call_address,
        authorization=_clear(feature.authorization),
        signing_secret=_clear(feature.signing_secret),
        selector=selector,
        matcher=compile(selector),
        states=selector.job_states,
        position=plugin.position,
        timeout_seconds=plugin.timeout_seconds,
        max_attempts=plugin.max_attempts,
        patience_seconds=plugin.patience_seconds,
        failure_policy=FailurePolicy(plugin.failure_policy),
        resumer=Resumer(plugin.resumer),
        mode=Mode(plugin.mode),
        shadow_of=plugin.shadow_of or "",
    )


def _clear(stored: str) -> str:
    return decrypt(stored) if stored else ""
