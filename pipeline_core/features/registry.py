"""Register, switch, order, promote, delete and show features and plugins.

Every change locks the registry's row first, so that changes are serialized, and increments its version if it changed
anything. The caller checks privileges; this module checks the ownership of features.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth import audit, idempotency
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.audit import Action
from pipeline_core.auth.idempotency import RepeatableRequest
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.common.encryption import encrypt, rotate
from pipeline_core.database.models import Feature, Plugin, Registry
from pipeline_core.errors import Conflict, Forbidden, NotFound, WrongParameter
from pipeline_core.features import plugins, snapshot
from pipeline_core.features.definition import (
    EVERYONE,
    SECRET_SET,
    FeatureDefinition,
    PluginOrder,
    parse_type,
)
from pipeline_core.plugins.network import origin
from pipeline_core.plugins.types import Mode, PluginType
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.texts import shown, storable

_FOUND = ("name", "author", "owner", "description", "enabled")
"""What a search shows of a feature."""


def require_owner(session: Session, name: object, actor: Actor) -> None:
    """Raises Forbidden when there is a feature of that name that belongs to someone else."""
    _check_owner(_find(session, name), actor)


def register(session: Session, definition: FeatureDefinition, actor: Actor) -> None:
    """Register a feature, or replace the one of that name.

    Raises Forbidden when the name belongs to someone else, and WrongParameter when a stored secret is to be kept and there is
    none, it would be sent to an origin that it was not given for, or a shadow would replace what is no active plugin of its
    type; then nothing is changed.
    """
    registry = _lock(session)
    moment = now()
    feature = _find(session, definition.name)
    _check_owner(feature, actor)
    former = plugins.origins(session, feature) if feature else frozenset()
    _require_stored("authorization", definition.authorization, feature.authorization if feature else "")
    _require_stored("signingSecret", definition.signing_secret, feature.signing_secret if feature else "")
    _require_known_origins("authorization", definition.authorization, definition, former)
    _require_known_origins("signingSecret", definition.signing_secret, definition, former)
    _refuse_replaced(session, definition)
    before = detail(session, feature.name) if feature else None
    if feature is None:
        feature = Feature(name=definition.name, owner=actor.name, enabled=definition.enabled, created_at=moment)
        session.add(feature)
    _update(feature, definition, moment)
    session.flush()
    plugins.replace(session, feature, definition.plugins, moment)
    _check_shadows(session, definition)
    registry.version += 1
    action = Action.FEATURE_REPLACE if before else Action.FEATURE_REGISTER
    audit.record(session, actor, action, feature.name, before=before, after=detail(session, feature.name))


def switch(session: Session, name: str, enabled: bool, actor: Actor) -> None:
    """Enable or disable a feature; does nothing when it is already. Raises NotFound and Forbidden."""
    registry = _lock(session)
    feature = _own(session, name, actor)
    if feature.enabled is enabled:
        return
    feature.enabled = enabled
    feature.updated_at = now()
    registry.version += 1
    action = Action.FEATURE_ENABLE if enabled else Action.FEATURE_DISABLE
    audit.record(session, actor, action, name, before={"enabled": not enabled}, after={"enabled": enabled})


def delete(session: Session, name: str, actor: Actor) -> None:
    """Delete a feature with its plugins; their waiting deliveries are dropped. Raises NotFound and Forbidden."""
    registry = _lock(session)
    feature = _own(session, name, actor)
    audit.record(session, actor, Action.FEATURE_DELETE, name, before=detail(session, name))
    keys = session.scalars(select(Plugin.key).where(Plugin.feature_id == feature.id)).all()
    plugins.drop_deliveries(session, keys, now())
    plugins.forget_shadowed(session, keys)
    session.delete(feature)
    registry.version += 1


def order(session: Session, wanted: PluginOrder, actor: Actor) -> None:
    """Have one plugin called before another of its type: unless it is already, move it to just before that one.

    Raises WrongParameter when one is of another type, NotFound, and Forbidden when an own-only actor moves another's.
    """
    before_key, after_key, type = wanted.before, wanted.after, wanted.type
    registry = _lock(session)
    found = {
        plugin.key: plugin for plugin in session.scalars(select(Plugin).where(Plugin.key.in_([before_key, after_key])))
    }
    errors = ValidationErrors()
    for field, key in (("beforeKey", before_key), ("afterKey", after_key)):
        if key in found and found[key].type != type:
            errors.add(
                field,
                f"must be the key of {type.with_article}; {shown(key)} is that of {PluginType(found[key].type).with_article}",
            )
        elif key in found and found[key].mode == Mode.SHADOW:
            errors.add(
                field, f"must be the key of an active plugin; {shown(key)} is a shadow, which is not in the sequence"
            )
    errors.raise_any()
    for key in (before_key, after_key):
        if key not in found:
            raise _no_plugin(key)
    if not actor.sees(found[before_key].feature.owner):
        raise Forbidden(f"An ownOnly token can move only plugins of features of {shown(actor.name)}.")
    former = plugins.keys_in_order(session, type)
    if former.index(before_key) < former.index(after_key):
        return
    plugins.move(session, found[before_key], found[after_key])
    registry.version += 1
    audit.record(
        session, actor, Action.PLUGIN_ORDER, before_key, before=former, after=plugins.keys_in_order(session, type)
    )


def promote(session: Session, key: str, actor: Actor, repeatable: RepeatableRequest | None = None) -> dict[str, Any]:
    """Let a shadow take the place of the plugin that it is to replace, which becomes its shadow. Returns both, by `promoted` and
    `replaced`, as they are now if the same `repeatable` request has done so before.

    Raises NotFound; Conflict when it is no shadow, is to replace none, or one of the features is off; Forbidden unless both
    features are the actor's.
    """
    registry = _lock(session)
    shadow = _plugin(session, key)
    if replaced := idempotency.claim(session, actor, repeatable, shadow.shadow_of or key):
        return _promotion(session, key, replaced)
    if shadow.mode != Mode.SHADOW:
        raise Conflict(f"The plugin {shown(key)} is active already; only a shadow can be promoted.")
    if not shadow.shadow_of:
        raise Conflict(
            f"The shadow {shown(key)} names no plugin whose place it would take: register it with shadowOf, or as active."
        )
    other = _plugin(session, shadow.shadow_of)
    for plugin in (shadow, other):
        _check_owner(plugin.feature, actor)
        if not plugin.feature.enabled:
            raise Conflict(
                f"The feature {shown(plugin.feature.name)} of {shown(plugin.key)} is off: "
                "a plugin is promoted while both features are on."
            )
    former = plugins.keys_in_order(session, PluginType(shadow.type))
    plugins.promote(session, shadow, other)
    registry.version += 1
    after = plugins.keys_in_order(session, PluginType(shadow.type))
    audit.record(session, actor, Action.PLUGIN_PROMOTE, key, before=former, after=after)
    return _promotion(session, key, other.key)


def _promotion(session: Session, key: str, replaced: str) -> dict[str, Any]:
    """A plugin that was promoted, and the one that it replaced, as the API shows them. Raises NotFound."""
    return {"promoted": plugin_detail(session, key), "replaced": plugin_detail(session, replaced)}


def detail(session: Session, name: str) -> dict[str, Any]:
    """A feature as the API shows it. Raises NotFound."""
    feature = _find(session, name)
    if feature is None:
        raise _no_feature(name)
    return _payloads(session, [feature])[0]


def listing(session: Session, author: str) -> list[dict[str, Any]]:
    """The features of an author, or of `all` authors, by name; an empty list for an unknown author."""
    query = select(Feature).order_by(Feature.name.collate("C"))
    if author.casefold() != EVERYONE:
        if not storable(author):
            return []
        query = query.where(Feature.author == author)
    return _payloads(session, list(session.scalars(query)))


def search(session: Session, prefix: str, *, limit: int) -> list[dict[str, Any]]:
    """At most `limit` features whose name begins with `prefix`, by name, without their plugins."""
    named = Feature.name.startswith(prefix, autoescape=True)
    query = select(Feature).where(named).order_by(Feature.name.collate("C")).limit(limit)
    return [{name: getattr(feature, name) for name in _FOUND} for feature in session.scalars(query)]


def plugin_detail(session: Session, key: str) -> dict[str, Any]:
    """A plugin as the API shows it. Raises NotFound."""
    row = session.execute(plugins.numbered().where(Plugin.key == key)).one_or_none() if storable(key) else None
    if row is None:
        raise _no_plugin(key)
    return plugins.payload(row)


def plugin_listing(session: Session, type_name: str) -> list[dict[str, Any]]:
    """The plugins of a type in sequence order, or of `all` types by stage; includes disabled ones.

    Raises UnsupportedPluginType.
    """
    types = list(PluginType) if type_name == EVERYONE else [parse_type(type_name)]
    rows = session.execute(plugins.numbered().where(Plugin.type.in_(types)))
    shown_plugins = [plugins.payload(row) for row in rows]
    return sorted(shown_plugins, key=lambda plugin: (types.index(plugin["pluginType"]), plugin["sequence"]))


def rotate_secrets(session: Session, actor: Actor) -> int:
    """Encrypt all stored secrets with the first key. Returns how many. Raises ConfigurationError when no key decrypts one.

    Does not change the registry's version: the decrypted secrets that processes have cached stay valid.
    """
    _lock(session)
    count = 0
    for feature in session.scalars(select(Feature)):
        for name in ("authorization", "signing_secret"):
            if stored := getattr(feature, name):
                setattr(feature, name, rotate(stored))
                count += 1
    audit.record(session, actor, Action.SECRETS_ROTATE, "secrets", after={"count": count})
    return count


def _plugin(session: Session, key: str) -> Plugin:
    query = select(Plugin).where(Plugin.key == key).execution_options(populate_existing=True)
    found = session.scalars(query).one_or_none() if storable(key) else None
    if found is None:
        raise _no_plugin(key)
    return found


def check_modes(session: Session, definition: FeatureDefinition) -> None:
    """Raises WrongParameter when a registration of the feature would be refused because of what is a shadow of what."""
    _refuse_replaced(session, definition)
    _check_shadows(session, definition)


def _refuse_replaced(session: Session, definition: FeatureDefinition) -> None:
    """Raises WrongParameter when a plugin that is a shadow now would become active because nothing is said of its mode: beside
    the one that has replaced it."""
    errors = ValidationErrors()
    for index, plugin in enumerate(definition.plugins):
        if plugin.mode:
            continue
        key = plugin.key(definition.name, definition.author)
        found = session.scalars(select(Plugin).where(Plugin.key == key)).one_or_none()
        if found is not None and found.mode == Mode.SHADOW:
            other = f" of {found.shadow_of}" if found.shadow_of else ""
            problem = (
                f"must be given: the plugin is a shadow{other} now. "
                f'"{Mode.SHADOW}" leaves it one, "{Mode.ACTIVE}" lets it decide'
            )
            errors.add(join_path("plugins", index, "mode"), problem)
    errors.raise_any()


def _check_shadows(session: Session, definition: FeatureDefinition) -> None:
    """Raises WrongParameter when a shadow of the feature names what is no active plugin of its type, or one of the feature's
    plugins becomes a shadow that has shadows itself."""
    errors = ValidationErrors()
    for index, plugin in enumerate(definition.plugins):
        if plugin.mode is not Mode.SHADOW:
            continue
        if plugin.shadow_of:
            found = session.scalars(select(Plugin).where(Plugin.key == plugin.shadow_of)).one_or_none()
            if problem := _shadow_problem(plugin.type, plugin.shadow_of, found):
                errors.add(join_path("plugins", index, "shadowOf"), problem)
        key = plugin.key(definition.name, definition.author)
        own = session.scalars(select(Plugin.key).where(Plugin.shadow_of == key, Plugin.key != key).order_by(Plugin.key))
        if shadows := ", ".join(own):
            problem = (
                f"cannot be {Mode.SHADOW}: {shadows} is to replace it; promote that one, or register it anew first"
            )
            errors.add(join_path("plugins", index, "mode"), problem)
    errors.raise_any()


def _shadow_problem(type: PluginType, key: str, found: Plugin | None) -> str:
    """What is wrong with the plugin that a shadow of this type names, if anything is."""
    if found is None:
        return f"must be the key of an active {type}; there is no plugin {shown(key)}"
    if found.type != type:
        return f"must be the key of an active {type}; {shown(key)} is that of {PluginType(found.type).with_article}"
    if found.mode == Mode.SHADOW:
        return f"must be the key of an active {type}; {shown(key)} is a shadow itself"
    return ""


def _lock(session: Session) -> Registry:
    snapshot.keep_private(session)
    return session.execute(select(Registry).with_for_update()).scalar_one()


def _find(session: Session, name: object) -> Feature | None:
    if not isinstance(name, str) or not storable(name):
        return None
    query = select(Feature).where(Feature.name == name).execution_options(populate_existing=True)
    return session.scalars(query).one_or_none()


def _own(session: Session, name: str, actor: Actor) -> Feature:
    feature = _find(session, name)
    if feature is None:
        raise _no_feature(name)
    _check_owner(feature, actor)
    return feature


def _check_owner(feature: Feature | None, actor: Actor) -> None:
    if feature and not actor.admin and feature.owner != actor.name:
        raise Forbidden(
            f"The feature {shown(feature.name)} was registered by {shown(feature.owner)}; "
            "only they and the admin may replace, switch, promote or delete it."
        )


def _require_stored(field: str, given: str, stored: str) -> None:
    if given == SECRET_SET and not stored:
        problem = f'"{SECRET_SET}" stands for one that is stored, and none is; give the value itself'
        raise WrongParameter(f"{field}: {problem}", errors={field: [problem]})


def _require_known_origins(field: str, given: str, definition: FeatureDefinition, former: Collection[str]) -> None:
    """Raises WrongParameter when a stored secret would be sent to an origin other than those that it was given for."""
    if given != SECRET_SET:
        return
    for index, plugin in enumerate(definition.plugins):
        if (new := origin(plugin.address)) not in former:
            problem = (
                f'"{SECRET_SET}" stands for one that was not given for {new}, '
                f"where {join_path('plugins', index, 'callAddress')} is; give the value itself"
            )
            raise WrongParameter(f"{field}: {problem}", errors={field: [problem]})


def _update(feature: Feature, definition: FeatureDefinition, now: datetime) -> None:
    feature.author = definition.author
    feature.description = definition.description
    if definition.authorization != SECRET_SET:
        feature.authorization = _encrypted(definition.authorization)
    if definition.signing_secret != SECRET_SET:
        feature.signing_secret = _encrypted(definition.signing_secret)
    feature.selector = definition.selector
    feature.updated_at = now


def _encrypted(secret: str) -> str:
    return encrypt(secret) if secret else ""


def _payloads(session: Session, features: list[Feature]) -> list[dict[str, Any]]:
    by_feature: dict[int, list[dict[str, Any]]] = {feature.id: [] for feature in features}
    for row in session.execute(plugins.numbered().where(Feature.id.in_(by_feature))):
        by_feature[row[1].id].append(plugins.payload(row))
    return [_payload(feature, by_feature[feature.id]) for feature in features]


def _payload(feature: Feature, plugin_payloads: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": feature.name,
        "author": feature.author,
        "owner": feature.owner,
        "description": feature.description,
        "enabled": feature.enabled,
        "authorization": SECRET_SET if feature.authorization else "",
        "signingSecret": SECRET_SET if feature.signing_secret else "",
        "jobSelector": feature.selector,
        "mode": Mode.SHADOW if all(plugin["mode"] == Mode.SHADOW for plugin in plugin_payloads) else Mode.ACTIVE,
        "plugins": plugin_payloads,
        "createdAt": rfc3339(feature.created_at),
        "updatedAt": rfc3339(feature.updated_at),
    }


def _no_feature(name: str) -> NotFound:
    return NotFound(f"There is no feature {shown(name)}.")


def _no_plugin(key: str) -> NotFound:
    return NotFound(f"There is no plugin {shown(key)}.")
