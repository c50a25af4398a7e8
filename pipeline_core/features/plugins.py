"""The rows of plugins: replacing and ordering them, and what happens to their deliveries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, delete, func, select, update
from sqlalchemy.orm import Session

from pipeline_core.database.models import Delivery, DeliveryStatus, Feature, Plugin
from pipeline_core.features.definition import PluginDefinition
from pipeline_core.plugins.network import origin
from pipeline_core.plugins.types import Mode, PluginType

Numbered = Row[Plugin, Feature, int]
"""A plugin, its feature, and its sequence: from 1 within its type and mode, including disabled plugins."""


def numbered() -> Select[Plugin, Feature, int]:
    """A query of all plugins with their sequence, in the order of registration; add filters as needed."""
    ranks = select(
        Plugin.id,
        func.row_number()
        .over(partition_by=(Plugin.type, Plugin.mode), order_by=(Plugin.position, Plugin.id))
        .label("sequence"),
    ).subquery()
    return (
        select(Plugin, Feature, ranks.c.sequence)
        .join(Feature, Plugin.feature_id == Feature.id)
        .join(ranks, ranks.c.id == Plugin.id)
        .order_by(Plugin.id)
        .execution_options(populate_existing=True)
    )


def replace(session: Session, feature: Feature, definitions: Collection[PluginDefinition], now: datetime) -> None:
    """Replace the feature's plugins by these. A plugin of a type that the feature had keeps its position, a new one is last."""
    former = {plugin.type: plugin for plugin in session.scalars(select(Plugin).where(Plugin.feature_id == feature.id))}
    session.execute(delete(Plugin).where(Plugin.feature_id == feature.id))
    session.expire(feature, ["plugins"])
    for definition in definitions:
        kept = former.get(definition.type)
        session.add(_row(feature, definition, kept.position if kept else _last_position(session, definition.type) + 1))
    session.flush()
    renamed = {former[d.type].key: d.key(feature.name, feature.author) for d in definitions if d.type in former}
    _readdress_deliveries(session, renamed)
    _readdress_shadows(session, renamed)
    removed = [plugin.key for plugin in former.values() if plugin.key not in renamed]
    drop_deliveries(session, removed, now)
    forget_shadowed(session, removed)


def origins(session: Session, feature: Feature) -> frozenset[str]:
    """The origins of the feature's plugins as they are stored."""
    return frozenset(map(origin, session.scalars(select(Plugin.call_address).where(Plugin.feature_id == feature.id))))


def drop_deliveries(session: Session, keys: Collection[str], now: datetime) -> None:
    """Drop the waiting deliveries to these plugins."""
    session.execute(
        update(Delivery)
        .where(Delivery.plugin_key.in_(keys), Delivery.status == DeliveryStatus.WAITING)
        .values(status=DeliveryStatus.DROPPED, finished_at=now, lease_owner=None, lease_until=None)
        .execution_options(synchronize_session=False)
    )


def forget_shadowed(session: Session, keys: Collection[str]) -> None:
    """Let the shadows of these plugins, which are removed, replace none."""
    session.execute(
        update(Plugin)
        .where(Plugin.shadow_of.in_(keys))
        .values(shadow_of=None)
        .execution_options(synchronize_session=False)
    )


def promote(session: Session, shadow: Plugin, other: Plugin) -> None:
    """Let the shadow take the place of the other one in the sequence, and the other become its shadow, as all other shadows of
    that one do."""
    session.execute(
        update(Plugin)
        .where(Plugin.shadow_of == other.key)
        .values(shadow_of=shadow.key)
        .execution_options(synchronize_session=False)
    )
    shadow.position, other.position = other.position, shadow.position
    shadow.mode, other.mode = Mode.ACTIVE, Mode.SHADOW
    shadow.shadow_of, other.shadow_of = None, shadow.key
    session.flush()


def move(session: Session, before: Plugin, after: Plugin) -> None:
    """Place `before` just before `after`, of the same type; the others keep their relative order."""
    session.execute(
        update(Plugin)
        .where(Plugin.type == after.type, Plugin.position >= after.position, Plugin.id != before.id)
        .values(position=Plugin.position + 1)
        .execution_options(synchronize_session=False)
    )
    before.position = after.position
    session.flush()


def keys_in_order(session: Session, type: PluginType) -> list[str]:
    """The keys of all plugins of a type but the shadows, in running order."""
    active = select(Plugin.key).where(Plugin.type == type, Plugin.mode == Mode.ACTIVE)
    return list(session.scalars(active.order_by(Plugin.position, Plugin.id)))


def payload(row: Numbered) -> dict[str, Any]:
    """A plugin as the API shows it."""
    plugin, feature, sequence = row
    return {
        "key": plugin.key,
        "feature": feature.name,
        "owner": feature.owner,
        "pluginType": plugin.type,
        "callAddress": plugin.call_address,
        "description": plugin.description,
        "jobSelector": plugin.selector,
        "effectiveJobSelector": plugin.effective_selector,
        "mode": plugin.mode,
        "shadowOf": plugin.shadow_of,
        "sequence": sequence,
        "enabled": feature.enabled,
        "timeoutSeconds": plugin.timeout_seconds,
        "maxAttempts": plugin.max_attempts,
        "patienceSeconds": plugin.patience_seconds,
        "failurePolicy": plugin.failure_policy,
        **({"resume": plugin.resumer} if plugin.type == PluginType.ACCESS_GATE else {}),
    }


def _row(feature: Feature, definition: PluginDefinition, position: int) -> Plugin:
    return Plugin(
        feature_id=feature.id,
        key=definition.key(feature.name, feature.author),
        type=definition.type,
        call_address=definition.address,
        description=definition.description,
        selector=definition.selector,
        effective_selector=definition.effective.to_json(),
        position=position,
        timeout_seconds=definition.timeout_seconds,
        max_attempts=definition.max_attempts,
        patience_seconds=definition.patience_seconds,
        failure_policy=definition.failure_policy,
        resumer=definition.resumer,
        mode=definition.mode or Mode.ACTIVE,
        shadow_of=definition.shadow_of or None,
    )


def _last_position(session: Session, type: PluginType) -> int:
    return session.execute(select(func.max(Plugin.position)).where(Plugin.type == type)).scalar_one() or 0


def _readdress_deliveries(session: Session, renamed: Mapping[str, str]) -> None:
    """Update the key in plugins' deliveries: a key contains the author's name, which may have changed."""
    for old, new in renamed.items():
        if old != new:
            session.execute(
                update(Delivery)
                .where(Delivery.plugin_key == old)
                .values(plugin_key=new)
                .execution_options(synchronize_session=False)
            )


def _readdress_shadows(session: Session, renamed: Mapping[str, str]) -> None:
    """Update the key in the shadows of plugins, for the same reason."""
    for old, new in renamed.items():
        if old != new:
            session.execute(
                update(Plugin)
                .where(Plugin.shadow_of == old)
                .values(shadow_of=new)
                .execution_options(synchronize_session=False)
            )
