from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from api.resources.tokens import CHANGE, CREATION
from api.schemas import tokens as schemas
from pipeline_core.auth import tokens
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.auth.tokens import TokenDefinition, TokenReference
from pipeline_core.errors import Forbidden, MissingParameter, WrongParameter

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADMIN = Actor(name="admin", admin=True)
ALICE = Actor(name="alice", privileges=frozenset({Privilege.WRITE_TOKEN, Privilege.READ_JOB}))
OWN = Actor(name="alice", privileges=frozenset({Privilege.WRITE_TOKEN, Privilege.READ_JOB}), own_only=True)


@pytest.fixture(autouse=True)
def _at_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "now", lambda: NOW)


def read_token(raw: Any, actor: Actor) -> TokenDefinition:
    definition: TokenDefinition = CREATION.read(raw, actor)
    tokens.require_may_create(definition, actor)
    return definition


def read_change(raw: Any, actor: Actor) -> tuple[TokenReference, tuple[Privilege, ...]]:
    reference, privileges = CHANGE.read(raw, actor)
    tokens.require_grantable(privileges, actor)
    return reference, privileges


def read_reference(raw: Any) -> Any:
    found, errors = schemas.REFERENCE.examine(raw)
    errors.raise_any()
    return found


def test_a_token_is_read_with_its_defaults() -> None:
    token = read_token({"privileges": ["read_job"], "forwho": "bob"}, ADMIN)
    assert token.privileges == (Privilege.READ_JOB,)
    assert (token.forwho, token.note, token.own_only, token.expires_at) == ("bob", "", False, None)


def test_a_token_is_read_with_everything() -> None:
    raw = {
        "privileges": ["write_job"],
        "forwho": "bob",
        "note": "n",
        "ownOnly": True,
        "expiresAt": "2027-01-01T01:00:00+01:00",
    }
    token = read_token(raw, ADMIN)
    assert token.own_only
    assert token.note == "n"
    assert token.expires_at == datetime(2027, 1, 1, tzinfo=UTC)


def test_other_names_of_privileges_are_understood_and_each_counts_once() -> None:
    names = ["write-plugin", "register-plugin", "write_feature", "read-plugin", "write-job", "read-job"]
    token = read_token({"privileges": names, "forwho": "bob"}, ADMIN)
    assert token.privileges == ("read_job", "write_job", "read_feature", "write_feature")


@pytest.mark.parametrize("name", ["admin", "", "READ_JOB", "read-token", "write_plugin", 1, None, ["read_job"]])
def test_any_other_privilege_is_wrong(name: Any) -> None:
    with pytest.raises(WrongParameter, match=r"privileges\[1\]"):
        read_token({"privileges": ["read_job", name], "forwho": "bob"}, ADMIN)


@pytest.mark.parametrize("value", [None, [], "", {}])
@pytest.mark.parametrize("field", ["privileges", "forwho"])
def test_a_required_field_lacks(field: str, value: Any) -> None:
    with pytest.raises(MissingParameter, match=field):
        read_token({"privileges": ["read_job"], "forwho": "bob", field: value}, ADMIN)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("privileges", "read_job"),
        ("forwho", 1),
        ("forwho", "x" * 256),
        ("forwho", "admin"),
        ("forwho", "Admin"),
        ("forwho", "\uff21DMIN"),
        ("forwho", " bob"),
        ("forwho", "bob\n"),
        ("forwho", "bob\u00a0"),
        ("forwho", "bob\r\neve"),
        ("forwho", "bob\x85eve"),
        ("forwho", "\u202eadmin"),
        ("forwho", "\x00"),
        ("note", 1),
        ("ownOnly", "yes"),
        ("expiresAt", ""),
        ("expiresAt", 1893553445),
        ("expiresAt", "tomorrow"),
        ("expiresAt", "2026-01-01T00:00:00Z"),
        ("expiresAt", "2030-01-01T00:00:00"),
        ("for", "bob"),
    ],
)
def test_a_bad_field_is_wrong(field: str, value: Any) -> None:
    with pytest.raises(WrongParameter, match=field):
        read_token({"privileges": ["read_job"], "forwho": "bob", field: value}, ADMIN)


def test_nobody_grants_what_they_do_not_hold() -> None:
    assert read_token({"privileges": ["read_job", "write_token"], "forwho": "bob"}, ALICE)
    with pytest.raises(Forbidden, match="write_job"):
        read_token({"privileges": ["read_job", "write-job"], "forwho": "bob"}, ALICE)
    with pytest.raises(Forbidden, match="write_job"):
        read_change({"id": "t1", "privileges": ["write_job"]}, ALICE)


def test_granting_an_unheld_privilege_is_refused_before_other_errors_of_the_body() -> None:
    with pytest.raises(Forbidden):
        read_token({"privileges": ["write_job"]}, ALICE)


def test_a_token_that_sees_only_its_own_grants_no_more_than_that() -> None:
    assert read_token({"privileges": ["read_job"], "forwho": "alice", "ownOnly": True}, OWN)
    for forwho, own_only in (("alice", False), ("bob", True)):
        with pytest.raises(Forbidden, match="ownOnly"):
            read_token({"privileges": ["read_job"], "forwho": forwho, "ownOnly": own_only}, OWN)


def test_a_token_is_referenced_by_value_or_by_id() -> None:
    assert read_reference({"token": "v"}) == TokenReference(value="v")
    assert read_reference({"id": "i"}) == TokenReference(id="i")
    with pytest.raises(MissingParameter, match="token"):
        read_reference({"token": None, "id": ""})
    with pytest.raises(WrongParameter, match="id"):
        read_reference({"token": "v", "id": "i"})
    with pytest.raises(WrongParameter, match="token"):
        read_reference({"token": 5})
    with pytest.raises(WrongParameter):
        read_reference(None)
    with pytest.raises(WrongParameter, match="privileges"):
        read_reference({"id": "i", "privileges": []})


@pytest.mark.parametrize("forwho", ["bob", "Bob Smith", "administrator", "b", "Zo\u00eb", "ada@example.com"])
def test_other_names_are_fine(forwho: str) -> None:
    assert read_token({"privileges": ["read_job"], "forwho": forwho}, ADMIN).forwho == forwho


def test_only_the_admin_makes_a_token_that_owns_the_features_of_somebody_else() -> None:
    actor = Actor(name="alice", privileges=frozenset(Privilege))
    assert read_token({"privileges": ["write_feature"], "forwho": "alice"}, actor)
    assert read_token({"privileges": ["read_feature"], "forwho": "bob"}, actor)
    assert read_token({"privileges": ["write_feature"], "forwho": "bob"}, ADMIN)
    with pytest.raises(Forbidden, match='own the features of "bob"'):
        read_token({"privileges": ["read_job", "register-plugin"], "forwho": "bob"}, actor)


def test_a_token_that_expires_makes_none_that_is_valid_for_longer() -> None:
    actor = Actor(name="alice", privileges=frozenset(Privilege), expires_at=datetime(2026, 2, 1, tzinfo=UTC))
    raw = {"privileges": ["read_job"], "forwho": "bob"}
    assert read_token({**raw, "expiresAt": "2026-02-01T00:00:00Z"}, actor)
    for more in ({}, {"expiresAt": "2026-02-01T00:00:01Z"}):
        with pytest.raises(Forbidden, match="2026-02-01T00:00:00Z"):
            read_token({**raw, **more}, actor)
