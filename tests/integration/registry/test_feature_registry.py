from __future__ import annotations

import base64
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from api.resources.features import REGISTRATION
from api.schemas.features import FeatureBody, SequenceBody
from pipeline_core.auth import audit
from pipeline_core.auth.actor import Actor
from pipeline_core.common.encryption import decrypt
from pipeline_core.database import transaction
from pipeline_core.database.models import Delivery, Event, Feature, Job, Plugin, Registry
from pipeline_core.errors import (
    ConfigurationError,
    Forbidden,
    MissingParameter,
    NotFound,
    UnsupportedPluginType,
    WrongParameter,
)
from pipeline_core.features import registry, snapshot
from pipeline_core.features.definition import FeatureDefinition, PluginOrder
from pipeline_core.plugins.network import origin
from pipeline_core.plugins.types import PluginType
from pipeline_core.runtime import restart

ADMIN = Actor(name="admin", admin=True)
ALICE = Actor(name="alice", token_id="t1", address="192.0.2.7", request_id="r1")
BOB = Actor(name="bob")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

pytestmark = pytest.mark.usefixtures("database")


def feature(name: str, *types: str, **fields: Any) -> dict[str, Any]:
    plugins = [{"pluginType": type, "callAddress": f"http://{name}/{type}"} for type in types or ("AccessGate",)]
    return {"name": name, "author": "platform", "plugins": plugins, **fields}


def read(raw: dict[str, Any]) -> FeatureDefinition:
    definition: FeatureDefinition = FeatureBody().read(raw)
    return definition


def register(*raws: dict[str, Any], actor: Actor = ALICE) -> None:
    for raw in raws:
        with transaction() as session:
            registry.register(session, REGISTRATION.read(raw, actor), actor)


def detail(name: str) -> dict[str, Any]:
    with transaction() as session:
        return registry.detail(session, name)


def gates() -> list[str]:
    with transaction() as session:
        return [plugin["feature"] for plugin in registry.plugin_listing(session, "AccessGate")]


def order(before: str, after: str, type: str = "AccessGate") -> None:
    with transaction() as session:
        registry.order(session, PluginOrder(before=before, after=after, type=PluginType(type)), ALICE)


def gate(name: str) -> str:
    return f"AccessGate.{name}.platform"


def version() -> int:
    with transaction() as session:
        return session.execute(select(Registry.version)).scalar_one()


def trail() -> list[dict[str, Any]]:
    with transaction() as session:
        return audit.listing(session, limit=50, offset=0)[0]


def waiting_delivery(id: str, key: str, status: str = "waiting") -> None:
    now = datetime.now(UTC)
    with transaction() as session:
        job = Job(
            id=f"j{id}", user_id="u", name="n", kind="k", namespace="d", state="waiting", stage="s", created_at=now
        )
        session.add(job)
        session.flush()
        event = Event(job_id=job.id, sequence=1, state="waiting", occurred_at=now)
        session.add(event)
        session.flush()
        session.add(
            Delivery(
                id=id,
                event_id=event.id,
                subject_id=job.id,
                sequence=1,
                plugin_key=key,
                status=status,
                created_at=now,
                next_at=now,
                give_up_at=now,
                lease_owner="w",
                lease_until=now,
            )
        )


def delivery(id: str) -> Delivery:
    with transaction() as session:
        return session.get_one(Delivery, id)


def test_a_feature_is_shown_as_it_was_registered_without_its_secrets() -> None:
    selector = {"conditions": [{"name": "t", "key": "type", "expect": "debug"}], "expression": "t"}
    raw = feature(
        "quota", "LifeHook", "AccessGate", authorization="Bearer x", signingSecret=SECRET, jobSelector=selector
    )
    raw["plugins"][1] |= {"jobSelector": {"expression": "!t"}, "description": "a gate", "failurePolicy": "Suspend"}
    register(raw)
    shown = detail("quota")
    created = shown.pop("createdAt")
    assert shown.pop("updatedAt") == created
    assert created.endswith("Z")
    plugins = shown.pop("plugins")
    assert shown == {
        "name": "quota",
        "author": "platform",
        "owner": "alice",
        "description": "",
        "enabled": False,
        "authorization": "set",
        "signingSecret": "set",
        "jobSelector": selector,
        "mode": "active",
    }
    assert [plugin["pluginType"] for plugin in plugins] == ["LifeHook", "AccessGate"]
    assert plugins[1] == {
        "key": "AccessGate.quota.platform",
        "feature": "quota",
        "owner": "alice",
        "pluginType": "AccessGate",
        "callAddress": "http://quota/AccessGate",
        "description": "a gate",
        "jobSelector": {"expression": "!t"},
        "effectiveJobSelector": {"conditions": selector["conditions"], "expression": "!t"},
        "mode": "active",
        "shadowOf": None,
        "sequence": 1,
        "enabled": False,
        "timeoutSeconds": 30,
        "maxAttempts": 3,
        "patienceSeconds": 60,
        "failurePolicy": "Suspend",
        "resume": "writer",
    }
    with transaction() as session:
        assert registry.plugin_detail(session, "AccessGate.quota.platform") == plugins[1]
        stored = session.scalars(select(Feature)).one()
    assert SECRET not in stored.signing_secret
    assert "Bearer" not in stored.authorization
    assert (decrypt(stored.authorization), decrypt(stored.signing_secret)) == ("Bearer x", SECRET)


def test_a_feature_without_secrets_needs_no_key(configure: Any) -> None:
    configure(secret_key=None)
    register(feature("open"))
    assert detail("open")["authorization"] == ""


def test_a_feature_is_enabled_only_when_the_request_says_so() -> None:
    register(feature("off"), feature("null", enabled=None), feature("on", enabled=True))
    assert [detail(name)["enabled"] for name in ("off", "null", "on")] == [False, False, True]


def test_registering_again_replaces_all_but_enabled_owner_and_sequence() -> None:
    register(feature("a", "AccessGate", "LifeHook", authorization="x"), feature("b"), feature("c"))
    with transaction() as session:
        registry.switch(session, "a", True, ALICE)
    created = detail("a")["createdAt"]
    again = feature("a", "TemplateDecorator", "AccessGate", enabled=False, description="new")
    again["plugins"][1]["callAddress"] = "http://elsewhere/"
    register(again, actor=ADMIN)
    shown = detail("a")
    assert (shown["enabled"], shown["owner"], shown["description"], shown["authorization"]) == (
        True,
        "alice",
        "new",
        "",
    )
    assert shown["createdAt"] == created
    assert shown["updatedAt"] > created
    assert [plugin["key"] for plugin in shown["plugins"]] == ["TemplateDecorator.a.platform", gate("a")]
    assert shown["plugins"][1]["callAddress"] == "http://elsewhere/"
    assert gates() == ["a", "b", "c"]


def test_a_plugin_that_is_dropped_and_comes_back_stands_last() -> None:
    register(feature("a"), feature("b"), feature("a", "LifeHook"), feature("a"))
    assert gates() == ["b", "a"]


def test_a_plugin_keeps_its_sequence_and_its_deliveries_when_the_author_is_renamed() -> None:
    register(feature("a", "LifeHook", "AccessGate"), feature("b"))
    waiting_delivery("d1", "LifeHook.a.platform")
    register(feature("a", "LifeHook", "AccessGate", author="renamed"))
    assert gates() == ["a", "b"]
    assert (delivery("d1").plugin_key, delivery("d1").status) == ("LifeHook.a.renamed", "waiting")


def test_a_detail_can_be_sent_back_and_changes_nothing() -> None:
    register(feature("a", "AccessGate", "LifeHook", authorization="Bearer x", enabled=True))
    before = detail("a")
    register(before)
    after = detail("a")
    assert after.pop("updatedAt") > before.pop("updatedAt")
    assert after == before
    with transaction() as session:
        assert decrypt(session.scalars(select(Feature.authorization)).one()) == "Bearer x"


def test_set_stands_for_nothing_where_no_authorization_is_stored() -> None:
    with pytest.raises(WrongParameter, match="authorization"):
        register(feature("a", authorization="set"))
    register(feature("a"))
    with pytest.raises(WrongParameter, match="authorization"):
        register(feature("a", authorization="set"))


def test_who_sees_only_its_own_moves_no_other_s_plugin() -> None:
    register(feature("a"), feature("b"))
    wanted = PluginOrder(before=gate("b"), after=gate("a"), type=PluginType.ACCESS_GATE)
    with transaction() as session:
        with pytest.raises(Forbidden, match="ownOnly"):
            registry.order(session, wanted, Actor(name="bob", own_only=True))
        registry.order(session, wanted, Actor(name="alice", own_only=True))
    assert gates() == ["b", "a"]


def test_nothing_is_kept_of_a_feature_with_one_bad_plugin() -> None:
    register(feature("a"))
    bad = feature("a", "AccessGate", "LifeHook", "Unheard")
    with pytest.raises(UnsupportedPluginType):
        register(bad)
    with pytest.raises(MissingParameter):
        register(feature("b") | {"plugins": []})
    assert [plugin["key"] for plugin in detail("a")["plugins"]] == [gate("a")]
    with transaction() as session:
        assert [shown["name"] for shown in registry.listing(session, "all")] == ["a"]


def test_nothing_is_kept_even_when_the_caller_goes_on_with_the_transaction() -> None:
    with transaction() as session, pytest.raises(WrongParameter):
        registry.register(session, read(feature("a", authorization="set")), ALICE)
    with pytest.raises(NotFound):
        detail("a")


def test_only_who_registered_it_or_the_admin_may_replace_switch_or_delete() -> None:
    register(feature("a"))
    with pytest.raises(Forbidden, match="alice"):
        register(feature("a"), actor=BOB)
    with pytest.raises(Forbidden), transaction() as session:
        registry.switch(session, "a", True, BOB)
    with pytest.raises(Forbidden), transaction() as session:
        registry.delete(session, "a", BOB)
    register(feature("a"), actor=ADMIN)
    with transaction() as session:
        registry.switch(session, "a", True, ADMIN)
        registry.delete(session, "a", ADMIN)


def test_somebody_elses_name_is_told_before_what_is_wrong_with_the_body() -> None:
    register(feature("a"))
    with pytest.raises(Forbidden):
        register({"name": "a", "plugins": 5}, actor=BOB)


@pytest.mark.parametrize("name", ["missing", "", "a\x00", "\ud800", "a/b"])
def test_what_is_not_there_is_not_found(name: str) -> None:
    with transaction() as session:
        for act in (
            lambda: registry.detail(session, name),
            lambda: registry.plugin_detail(session, name),
            lambda: registry.switch(session, name, True, ADMIN),
            lambda: registry.delete(session, name, ADMIN),
        ):
            with pytest.raises(NotFound):
                act()
        assert registry.listing(session, name) == []


def test_switching_is_idempotent_and_only_a_change_counts() -> None:
    register(feature("a"))
    before = version()
    with transaction() as session:
        registry.switch(session, "a", True, ALICE)
        registry.switch(session, "a", True, ALICE)
    assert detail("a")["enabled"]
    assert version() == before + 1
    with transaction() as session:
        registry.switch(session, "a", False, ALICE)
    assert not detail("a")["enabled"]
    assert [entry["action"] for entry in trail()] == ["feature.disable", "feature.enable", "feature.register"]


def test_deleting_drops_what_its_plugins_were_still_to_be_told() -> None:
    register(feature("a", "LifeHook"), feature("b", "LifeHook"))
    waiting_delivery("d1", "LifeHook.a.platform")
    waiting_delivery("d2", "LifeHook.a.platform", status="delivered")
    waiting_delivery("d3", "LifeHook.b.platform")
    with transaction() as session:
        registry.delete(session, "a", ALICE)
    dropped = delivery("d1")
    assert (dropped.status, dropped.lease_owner) == ("dropped", None)
    assert dropped.finished_at is not None
    assert (delivery("d2").status, delivery("d3").status) == ("delivered", "waiting")
    with pytest.raises(NotFound):
        detail("a")
    with transaction() as session:
        assert session.scalars(select(Plugin.key)).all() == ["LifeHook.b.platform"]


def test_a_plugin_that_its_feature_drops_drops_its_deliveries_too() -> None:
    register(feature("a", "LifeHook", "AccessGate"))
    waiting_delivery("d1", "LifeHook.a.platform")
    register(feature("a", "AccessGate"))
    assert delivery("d1").status == "dropped"


def test_features_are_listed_by_name_for_an_author_or_for_all() -> None:
    register(feature("b"), feature("B"), feature("a-1"), feature("a1", author="张三"), feature("a_1"))
    with transaction() as session:
        assert [shown["name"] for shown in registry.listing(session, "all")] == ["B", "a-1", "a1", "a_1", "b"]
        assert [shown["name"] for shown in registry.listing(session, "张三")] == ["a1"]
        assert registry.listing(session, "nobody") == []
        assert registry.listing(session, "platform")[0]["plugins"][0]["key"] == gate("B")


def test_plugins_are_listed_in_running_order_disabled_ones_too() -> None:
    register(feature("a", "LifeHook", "AccessGate"), feature("b", "AccessGate", "TemplateTranslator", enabled=True))
    with transaction() as session:
        shown = registry.plugin_listing(session, "all")
        assert [(plugin["key"], plugin["sequence"], plugin["enabled"]) for plugin in shown] == [
            ("TemplateTranslator.b.platform", 1, True),
            (gate("a"), 1, False),
            (gate("b"), 2, True),
            ("LifeHook.a.platform", 1, False),
        ]
        assert registry.plugin_listing(session, "SchedulerBinder") == []
        for name in ("Gate", "accessgate", "", "\x00"):
            with pytest.raises(UnsupportedPluginType):
                registry.plugin_listing(session, name)


def test_sequences_have_no_gaps_after_a_deletion() -> None:
    register(feature("a"), feature("b"), feature("c"))
    with transaction() as session:
        registry.delete(session, "b", ALICE)
        assert [plugin["sequence"] for plugin in registry.plugin_listing(session, "AccessGate")] == [1, 2]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("d", "a", "dabcef"),
        ("d", "b", "adbcef"),
        ("f", "e", "abcdfe"),
        ("b", "a", "bacdef"),
        ("f", "a", "fabcde"),
        ("a", "f", "abcdef"),
        ("c", "d", "abcdef"),
    ],
)
def test_a_plugin_moves_to_just_before_another_unless_it_runs_before_it_already(
    before: str, after: str, expected: str
) -> None:
    register(*map(feature, "abcdef"), feature("other", "LifeHook"))
    was = version()
    order(gate(before), gate(after))
    assert "".join(gates()) == expected
    assert version() == was + (expected != "abcdef")


def test_moves_add_up_and_new_plugins_still_come_last() -> None:
    register(*map(feature, "abcd"))
    order(gate("d"), gate("a"))
    order(gate("c"), gate("d"))
    register(feature("e"), feature("a"))
    assert "".join(gates()) == "cdabe"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"beforeKey": None}, MissingParameter),
        ({"afterKey": ""}, MissingParameter),
        ({"pluginType": None}, MissingParameter),
        ({"beforeKey": 1}, WrongParameter),
        ({"afterKey": gate("a") + "\x00"}, WrongParameter),
        ({"beforeKey": gate("b")}, WrongParameter),
        ({"pluginType": "LifeHook"}, WrongParameter),
        ({"pluginType": "all"}, UnsupportedPluginType),
        ({"beforeKey": "LifeHook.h.platform"}, WrongParameter),
        ({"beforeKey": "LifeHook.h.platform", "afterKey": "missing"}, WrongParameter),
        ({"beforeKey": "missing"}, NotFound),
        ({"afterKey": "missing"}, NotFound),
        ({"position": 1}, WrongParameter),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    register(feature("a"), feature("b"), feature("h", "LifeHook"))
    raw = {"beforeKey": gate("a"), "afterKey": gate("b"), "pluginType": "AccessGate"}
    with pytest.raises(error) as caught, transaction() as session:
        registry.order(session, SequenceBody().read(raw | changes), ALICE)
    assert type(caught.value) is error


def test_every_change_is_in_the_audit_log_without_secrets() -> None:
    register(feature("a", authorization="Bearer tell-no-one"), feature("b"), feature("a"))
    order(gate("b"), gate("a"))
    with transaction() as session:
        registry.delete(session, "a", ALICE)
    entries = trail()
    assert [(entry["action"], entry["target"]) for entry in entries] == [
        ("feature.delete", "a"),
        ("plugin.order", gate("b")),
        ("feature.replace", "a"),
        ("feature.register", "b"),
        ("feature.register", "a"),
    ]
    assert entries[1]["before"] == [gate("a"), gate("b")]
    assert entries[1]["after"] == [gate("b"), gate("a")]
    assert entries[2]["before"]["authorization"] == "set"
    assert entries[2]["after"]["authorization"] == ""
    assert (entries[0]["after"], entries[-1]["before"]) == (None, None)
    assert {(entry["actor"], entry["tokenID"], entry["address"], entry["requestID"]) for entry in entries} == {
        ("alice", "t1", "192.0.2.7", "r1")
    }
    assert "tell-no-one" not in str(entries)


def test_concurrent_registrations_of_one_name_end_as_one_feature_with_places_of_their_own() -> None:
    problems: list[BaseException] = []

    def run(number: int) -> None:
        try:
            register(feature("same"), feature(f"own{number}"))
        except BaseException as error:  # noqa: BLE001 -- raised by the test itself
            problems.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    with transaction() as session:
        positions = session.scalars(select(Plugin.position)).all()
    assert len(positions) == len(set(positions)) == 7


def test_a_snapshot_has_the_enabled_plugins_in_order_with_secrets_in_clear() -> None:
    register(
        feature("a", enabled=True, authorization="Bearer x", signingSecret=SECRET),
        feature("b"),
        feature("c", enabled=True, jobSelector={"expression": "jobID"}),
    )
    order(gate("c"), gate("a"))
    with transaction() as session:
        now = snapshot.current(session)
        assert now.version == version()
    type = now.get(gate("a")).type  # type: ignore[union-attr]
    assert [plugin.feature for plugin in now.of(type)] == ["c", "a"]
    assert [plugin.feature for plugin in now.matching(type, {"jobID": ""})] == ["a"]
    assert [plugin.feature for plugin in now.matching(type, {"jobID": "j"})] == ["c", "a"]
    assert now.get(gate("b")) is None
    found = now.get(gate("a"))
    assert found is not None
    assert (found.owner, found.address) == ("alice", "http://a/AccessGate")
    assert (found.endpoint.key, found.endpoint.authorization, found.endpoint.signing_secret) == (
        gate("a"),
        "Bearer x",
        SECRET,
    )
    assert SECRET not in repr(found)


def test_a_snapshot_tells_subscribers_by_state() -> None:
    raw = [feature(name, "LifeHook", enabled=True) for name in ("every", "ends", "runs")]
    raw[1]["plugins"][0]["jobSelector"] = {"states": ["completed"]}
    raw[2]["plugins"][0]["jobSelector"] = {"states": ["Running"], "expression": "userID"}
    register(*raw)
    with transaction() as session:
        now = snapshot.current(session)

    def notified(state: str, **header: str) -> list[str]:
        return [plugin.feature for plugin in now.subscribers(header, snapshot.JobState(state))]

    assert notified("waiting") == ["every"]
    assert notified("failed") == ["every", "ends"]
    assert notified("running") == ["every"]
    assert notified("running", userID="u") == ["every", "runs"]


def test_a_snapshot_is_compiled_again_only_after_a_change() -> None:
    register(feature("a", enabled=True))
    with transaction() as session:
        first = snapshot.current(session)
        assert snapshot.current(session) is first
        assert snapshot.at(session, first.version) is first
    register(feature("b", enabled=True))
    with transaction() as session:
        second = snapshot.current(session)
    assert second is not first
    assert second.version == first.version + 1
    assert first.get(gate("b")) is None
    assert second.get(gate("b")) is not None


def test_a_snapshot_of_nothing_has_the_version() -> None:
    with transaction() as session:
        now = snapshot.current(session)
    assert now.version == version()
    assert all(now.of(type) == () for type in snapshot.PluginType)


def test_a_change_shows_in_its_own_transaction_and_nowhere_else_until_it_is_committed() -> None:
    register(feature("a"))
    with transaction() as session:
        registry.switch(session, "a", True, ALICE)
        assert snapshot.current(session).get(gate("a")) is not None
        session.rollback()
    register(feature("b", enabled=True))
    with transaction() as session:
        now = snapshot.current(session)
    assert now.get(gate("a")) is None
    assert now.get(gate("b")) is not None


def test_a_feature_that_is_sent_back_as_it_was_shown_keeps_its_secrets() -> None:
    with transaction() as session:
        kept = feature("kept", authorization="Bearer x", signingSecret=SECRET, enabled=True)
        registry.register(session, read(kept), ADMIN)
        registry.switch(session, "kept", True, ADMIN)
    with transaction() as session:
        shown = registry.detail(session, "kept")
    assert (shown["authorization"], shown["signingSecret"]) == ("set", "set")
    with transaction() as session:
        registry.register(session, read(shown), ADMIN)
        (plugin,) = [one for one in snapshot.current(session).of(PluginType.ACCESS_GATE) if one.feature == "kept"]
    assert (plugin.authorization, plugin.signing_secret) == ("Bearer x", SECRET)


def test_a_secret_that_is_not_stored_cannot_be_kept() -> None:
    with (
        transaction() as session,
        pytest.raises(WrongParameter, match='signingSecret: "set" stands for one that is stored'),
    ):
        registry.register(session, read(feature("new", signingSecret="set")), ADMIN)


@pytest.mark.parametrize("field", ["authorization", "signingSecret"])
@pytest.mark.parametrize("address", ["http://other/gate", "https://a/gate", "http://a:8080/gate"])
def test_a_stored_secret_is_not_used_for_another_origin(field: str, address: str) -> None:
    value = {"authorization": "Bearer x", "signingSecret": SECRET}[field]
    register(feature("a", "AccessGate", "LifeHook", **{field: value}))
    moved = feature("a", "AccessGate", "LifeHook", **{field: "set"})
    moved["plugins"][1]["callAddress"] = address
    for actor in (ALICE, ADMIN):
        with pytest.raises(WrongParameter) as caught:
            register(moved, actor=actor)
        assert list(caught.value.errors) == [field]
        assert origin(address) in caught.value.message
        assert "plugins[1].callAddress" in caught.value.message
    assert detail("a")["plugins"][1]["callAddress"] == "http://a/LifeHook"
    register(moved | {field: value})
    register(moved)


def test_a_stored_secret_is_kept_where_another_path_or_spelling_names_the_same_origin() -> None:
    register(feature("a", authorization="Bearer x"))
    moved = feature("a", authorization="set")
    moved["plugins"][0]["callAddress"] = "HTTP://A:80/another?path"
    register(moved)
    assert detail("a")["authorization"] == "set"


def test_rotation_leaves_secrets_that_the_first_key_alone_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (base64.urlsafe_b64encode(letter * 32).decode() for letter in (b"k", b"n"))
    monkeypatch.setenv("PIPELINE_SECRET_KEY", old)
    restart()
    register(feature("quota", "LifeHook", authorization="Bearer x", signingSecret=SECRET))
    register(feature("plain", "AccessGate"))
    monkeypatch.setenv("PIPELINE_SECRET_KEY", f"{new},{old}")
    restart()
    with transaction() as session:
        assert registry.rotate_secrets(session, ADMIN) == 2
    monkeypatch.setenv("PIPELINE_SECRET_KEY", new)
    restart()
    with transaction() as session:
        stored = session.scalars(select(Feature).where(Feature.name == "quota")).one()
    assert (decrypt(stored.authorization), decrypt(stored.signing_secret)) == ("Bearer x", SECRET)
    assert (trail()[0]["action"], trail()[0]["after"]) == ("secrets.rotate", {"count": 2})


def test_rotation_without_a_key_that_fits_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    register(feature("quota", "LifeHook", authorization="Bearer x", signingSecret=SECRET))
    monkeypatch.setenv("PIPELINE_SECRET_KEY", base64.urlsafe_b64encode(b"o" * 32).decode())
    restart()
    with pytest.raises(ConfigurationError, match="add the one it was stored with"), transaction() as session:
        registry.rotate_secrets(session, ADMIN)
    assert "secrets.rotate" not in {entry["action"] for entry in trail()}
