"""Shadows in the registry: what is refused, what active paths see of them, and promotion."""

from __future__ import annotations

from typing import Any

import pytest

from api.schemas.features import FeatureBody
from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction
from pipeline_core.errors import Conflict, Forbidden, NotFound, WrongParameter
from pipeline_core.features import registry, snapshot
from pipeline_core.plugins.types import Mode, PluginType
from tests.builders import feature, plugin

pytestmark = pytest.mark.usefixtures("database")

ALICE = Actor(name="alice")
BOB = Actor(name="bob")
GATE = PluginType.ACCESS_GATE


def key(name: str) -> str:
    return f"AccessGate.{name}.platform"


def register(name: str, actor: Actor = ALICE, type: str = "AccessGate", **fields: Any) -> None:
    document = feature(name, plugin(type, **fields), enabled=True)
    with transaction() as session:
        registry.register(session, FeatureBody().read(document), actor)


def shadow(name: str, of: str = "", actor: Actor = ALICE) -> None:
    register(name, actor, mode="shadow", **({"shadowOf": key(of)} if of else {}))


def promote(name: str, actor: Actor = ALICE) -> None:
    with transaction() as session:
        registry.promote(session, key(name), actor)


def gates() -> list[tuple[str, str, str | None, int]]:
    with transaction() as session:
        shown = registry.plugin_listing(session, "AccessGate")
    return sorted((one["feature"], one["mode"], one["shadowOf"], one["sequence"]) for one in shown)


def snapshot_now() -> snapshot.Snapshot:
    with transaction() as session:
        return snapshot.current(session)


def errors_of(document: dict[str, Any]) -> dict[str, list[str]]:
    with pytest.raises(WrongParameter) as raised, transaction() as session:
        registry.register(session, FeatureBody().read(document), ALICE)
    return dict(raised.value.errors)


def test_no_active_path_sees_a_shadow() -> None:
    register("first")
    shadow("second", "first")
    now = snapshot_now()
    assert [one.key for one in now.of(GATE)] == [key("first")]
    assert [one.key for one in now.matching(GATE, {})] == [key("first")]
    assert now.get(key("second")) is None
    assert [(one.key, one.shadow_of) for one in now.shadows(GATE)] == [(key("second"), key("first"))]
    assert now.shadow(key("second")) == now.shadows()[0]
    assert now.shadows(PluginType.SCHEDULER_BINDER) == ()
    assert now.has_shadows


def test_shadows_are_counted_by_themselves_and_cannot_be_ordered() -> None:
    shadow("zero")
    register("first")
    shadow("second", "first")
    register("third")
    assert gates() == [
        ("first", "active", None, 1),
        ("second", "shadow", key("first"), 2),
        ("third", "active", None, 2),
        ("zero", "shadow", None, 1),
    ]
    order = registry.PluginOrder(before=key("second"), after=key("first"), type=GATE)
    with pytest.raises(WrongParameter, match="is a shadow, which is not in the sequence"), transaction() as session:
        registry.order(session, order, ALICE)


def test_a_feature_may_be_shadow_as_a_whole() -> None:
    document = feature("both", plugin(), plugin("SchedulerBinder", mode="active"), mode="shadow")
    with transaction() as session:
        registry.register(session, FeatureBody().read(document), ALICE)
        shown = registry.detail(session, "both")
        assert [one["mode"] for one in shown["plugins"]] == ["shadow", "active"]
        assert shown["mode"] == "active"
        registry.register(session, FeatureBody().read(feature("both", mode="shadow")), ALICE)
        shown = registry.detail(session, "both")
        assert shown["mode"] == "shadow"
        registry.register(session, FeatureBody().read(shown), ALICE)
        assert registry.detail(session, "both")["plugins"] == shown["plugins"]


@pytest.mark.parametrize(
    ("fields", "path", "problem"),
    [
        ({"mode": "both"}, "mode", "must be one of active, shadow"),
        ({"shadowOf": key("first")}, "shadowOf", "only a plugin with the mode"),
        ({"mode": "shadow", "shadowOf": key("none")}, "shadowOf", "there is no plugin"),
        ({"mode": "shadow", "shadowOf": key("shade")}, "shadowOf", "is a shadow itself"),
        ({"mode": "shadow", "shadowOf": key("new")}, "shadowOf", "is a shadow itself"),
        (
            {"mode": "shadow", "shadowOf": "SchedulerBinder.binder.platform"},
            "shadowOf",
            "is that of a SchedulerBinder",
        ),
        ({"mode": "shadow", "pluginType": "LifeHook"}, "mode", "a LifeHook cannot be a shadow"),
    ],
)
def test_a_shadow_that_makes_no_sense_is_refused(fields: dict[str, Any], path: str, problem: str) -> None:
    register("first")
    shadow("shade", "first")
    register("binder", type="SchedulerBinder")
    found = errors_of(feature("new", {**plugin(), **fields}))
    assert problem in found[f"plugins[0].{path}"][0]


def test_a_feature_of_shadows_has_no_life_hook() -> None:
    found = errors_of(feature("new", plugin(), plugin("LifeHook"), mode="shadow"))
    assert "a LifeHook cannot be a shadow" in found["plugins[1].mode"][0]


def test_a_plugin_with_shadows_cannot_become_one() -> None:
    register("first")
    register("other")
    shadow("second", "first")
    found = errors_of(feature("first", plugin(mode="shadow", shadowOf=key("other"))))
    assert f"{key('second')} is to replace it" in found["plugins[0].mode"][0]


def test_a_shadow_is_kept_when_the_plugin_that_it_replaces_is_renamed_or_removed() -> None:
    register("first")
    shadow("second", "first")
    with transaction() as session:
        registry.register(session, FeatureBody().read(feature("first", author="someone")), ALICE)
    assert ("second", "shadow", "AccessGate.first.someone", 1) in gates()
    with transaction() as session:
        registry.delete(session, "first", ALICE)
    assert gates() == [("second", "shadow", None, 1)]
    with pytest.raises(Conflict, match="names no plugin whose place it would take"):
        promote("second")


def test_promotion_swaps_the_places_and_back_again() -> None:
    for name in ("first", "other", "last"):
        register(name)
    shadow("second", "other")
    shadow("third", "other")
    before = gates()
    version = snapshot_now().version
    promote("second")
    assert gates() == sorted(
        [
            ("first", "active", None, 1),
            ("second", "active", None, 2),
            ("last", "active", None, 3),
            ("other", "shadow", key("second"), 1),
            ("third", "shadow", key("second"), 2),
        ]
    )
    assert snapshot_now().version == version + 1
    assert [one.key for one in snapshot_now().of(GATE)] == [key("first"), key("second"), key("last")]
    promote("other")
    assert gates() == before
    with transaction() as session:
        newest = registry.audit.listing(session, limit=1, offset=0)[0][0]
    assert (newest["action"], newest["target"]) == ("plugin.promote", key("other"))
    assert newest["after"] == [key("first"), key("other"), key("last")]


def test_who_may_promote_what() -> None:
    register("first")
    shadow("second", "first", BOB)
    for actor in (ALICE, BOB):
        with pytest.raises(Forbidden):
            promote("second", actor)
    with pytest.raises(Conflict, match="is active already"):
        promote("first")
    with pytest.raises(NotFound):
        promote("missing")
    with transaction() as session:
        registry.switch(session, "second", False, BOB)
    with pytest.raises(Conflict, match=r'The feature "second" of .* is off'):
        promote("second", Actor(name="admin", admin=True))
    assert [one.mode for one in snapshot_now().of(GATE)] == [Mode.ACTIVE]
