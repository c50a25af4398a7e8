from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from api.resources.tokens import CHANGE, DELETION
from api.schemas.tokens import AdminBody, TokenBody
from pipeline_core.auth import audit, password, tokens
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.auth.tokens import TokenReference
from pipeline_core.database import transaction
from pipeline_core.database.models import AdminPassword, Token
from pipeline_core.errors import (
    ConfigurationError,
    Forbidden,
    MissingParameter,
    NotFound,
    Unauthenticated,
    WrongParameter,
)
from tests.statements import counted_statements

ADMIN = Actor(name="admin", admin=True, address="192.0.2.1", request_id="r9")

pytestmark = pytest.mark.usefixtures("database")


def create(**fields: Any) -> tuple[str, str]:
    with transaction() as session:
        return tokens.create(session, TokenBody().read({"privileges": ["read_job"], "forwho": "bob", **fields}), ADMIN)


def authenticate(value: str, **origin: str) -> Actor:
    with transaction() as session:
        return tokens.authenticate(session, value, **origin)


def set_password(value: str, actor: Actor = ADMIN) -> None:
    with transaction() as session:
        tokens.change_admin_password(session, AdminBody().read({"token": value}), actor)


def change_privileges(session: Session, raw: Any, actor: Actor) -> None:
    reference, privileges = CHANGE.read(raw, actor)
    tokens.change_privileges(session, reference, privileges, actor)


def delete(session: Session, raw: Any) -> None:
    tokens.delete(session, DELETION.read(raw, ADMIN), ADMIN)


def known(value: str) -> bool:
    try:
        authenticate(value)
    except Unauthenticated:
        return False
    return True


def row(id: str) -> Token:
    with transaction() as session:
        return session.get_one(Token, id)


def trail() -> list[dict[str, Any]]:
    with transaction() as session:
        return audit.listing(session, limit=50, offset=0)[0]


def test_a_token_is_24_letters_and_digits_and_only_its_hash_is_kept() -> None:
    value, id = create()
    assert re.fullmatch("[A-Za-z0-9]{24}", value)
    assert id not in value
    assert value not in id
    assert value not in str(vars(row(id)))
    assert not re.fullmatch("[A-Za-z0-9]{24}", id)


def test_a_token_authenticates_its_bearer_with_its_privileges() -> None:
    value, id = create(privileges=["read_job", "write-plugin"], ownOnly=True)
    assert authenticate(value, address="192.0.2.2", request_id="r1") == Actor(
        name="bob",
        token_id=id,
        privileges=frozenset({Privilege.READ_JOB, Privilege.WRITE_FEATURE}),
        own_only=True,
        address="192.0.2.2",
        request_id="r1",
    )


@pytest.mark.parametrize("value", ["", "x", "A" * 24, "ä" * 24, "\x00", "\ud800" * 9, "x" * 10_000, "admin"])
def test_whoever_is_unknown_is_refused(value: str, configure: Any) -> None:
    configure(admin_password="correct horse")
    create()
    with pytest.raises(Unauthenticated):
        authenticate(value)
    with pytest.raises(Unauthenticated):
        tokens.authenticate_alone(value)


def test_who_is_known_is_so_without_a_session_too_and_the_first_use_is_noted(configure: Any) -> None:
    configure(admin_password="correct horse")
    value, id = create()
    origin = {"address": "192.0.2.2", "request_id": "r1"}
    for credential in (value, "correct horse"):
        assert tokens.authenticate_alone(credential, **origin) == authenticate(credential, **origin)
    with transaction() as session:
        session.execute(update(Token).values(last_used_at=None))
    tokens.authenticate_alone(value)
    assert row(id).last_used_at is not None
    with counted_statements() as seen:
        tokens.authenticate_alone(value)
    assert len(seen) == 1


def test_a_hash_is_no_token() -> None:
    _, id = create()
    assert not known(row(id).hash)


def test_an_expired_token_is_unknown() -> None:
    value, _ = create(expiresAt="2100-01-01T00:00:00Z")
    assert known(value)
    with transaction() as session:
        session.execute(update(Token).values(expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    assert not known(value)


def test_a_token_is_looked_up_by_one_query_and_its_use_noted_once_a_minute() -> None:
    value, id = create()
    with counted_statements() as seen:
        authenticate(value)
    assert len(seen) == 2
    first = row(id).last_used_at
    assert first is not None
    with counted_statements() as seen:
        authenticate(value)
    assert len(seen) == 1
    assert row(id).last_used_at == first
    with transaction() as session:
        session.execute(update(Token).values(last_used_at=first - timedelta(minutes=2)))
    authenticate(value)
    assert row(id).last_used_at > first - timedelta(minutes=1)  # type: ignore[operator]


def test_noting_a_use_waits_for_no_other_request() -> None:
    value, id = create()
    with transaction() as one:
        tokens.authenticate(one, value)
        with transaction() as other:
            assert tokens.authenticate(other, value).token_id == id


def test_privileges_change_at_once_by_token_or_by_id() -> None:
    value, id = create()
    with transaction() as session:
        change_privileges(session, {"token": value, "privileges": ["write-job"]}, ADMIN)
    assert authenticate(value).privileges == {Privilege.WRITE_JOB}
    with transaction() as session:
        change_privileges(session, {"id": id, "privileges": ["read-plugin", "read_feature"]}, ADMIN)
    assert authenticate(value).privileges == {Privilege.READ_FEATURE}


@pytest.mark.parametrize("how", ["token", "id", "path"])
def test_a_deleted_token_is_unknown_at_once(how: str) -> None:
    value, id = create()
    assert known(value)
    with transaction() as session:
        match how:
            case "token":
                delete(session, {"token": value})
            case "id":
                delete(session, {"id": id})
            case _:
                tokens.delete(session, TokenReference(id=id), ADMIN)
    assert not known(value)


def test_what_is_not_there_is_not_found() -> None:
    with transaction() as session:
        for raw in ({"token": "A" * 24}, {"id": "t0"}, {"token": "admin"}):
            with pytest.raises(NotFound):
                delete(session, raw)
            with pytest.raises(NotFound):
                change_privileges(session, {**raw, "privileges": ["read_job"]}, ADMIN)
        for id in ("", "t0", "\x00", "\ud800"):
            with pytest.raises(NotFound):
                tokens.delete(session, TokenReference(id=id), ADMIN)


def test_an_invalid_body_is_refused() -> None:
    with transaction() as session:
        with pytest.raises(MissingParameter):
            delete(session, {})
        with pytest.raises(WrongParameter):
            delete(session, None)
        with pytest.raises(WrongParameter):
            delete(session, {"id": "\x00"})
        with pytest.raises(MissingParameter):
            change_privileges(session, {"privileges": ["read_job"]}, ADMIN)
        with pytest.raises(MissingParameter):
            change_privileges(session, {"id": "t0", "privileges": []}, ADMIN)


def test_nobody_grants_what_they_do_not_hold() -> None:
    actor = Actor(name="alice", privileges=frozenset({Privilege.WRITE_TOKEN}))
    _, id = create()
    with transaction() as session:
        with pytest.raises(Forbidden):
            tokens.create(session, TokenBody().read({"privileges": ["read_job"], "forwho": "x"}), actor)
        with pytest.raises(Forbidden):
            change_privileges(session, {"id": id, "privileges": ["read_job"]}, actor)
        change_privileges(session, {"id": id, "privileges": ["write_token"]}, actor)
    assert row(id).privileges == ["write_token"]


def test_a_token_that_sees_only_its_own_changes_only_such_tokens_of_its_user() -> None:
    actor = Actor(name="bob", privileges=frozenset(Privilege), own_only=True)
    for fields, allowed in (({}, False), ({"ownOnly": True}, True), ({"ownOnly": True, "forwho": "eve"}, False)):
        _, id = create(**fields)
        with transaction() as session:
            if allowed:
                change_privileges(session, {"id": id, "privileges": ["write_job"]}, actor)
            else:
                with pytest.raises(Forbidden):
                    change_privileges(session, {"id": id, "privileges": ["write_job"]}, actor)


def test_a_token_that_sees_only_its_own_lists_and_revokes_those_of_its_user_alone() -> None:
    actor = Actor(name="bob", privileges=frozenset(Privilege), own_only=True)
    value, theirs = create(forwho="eve")
    _, own = create()
    with transaction() as session:
        found, total = tokens.listing(session, limit=9, offset=0, actor=actor)
        assert ([shown["id"] for shown in found], total) == ([own], 1)
        for reference in (TokenReference(id=theirs), TokenReference(value=value)):
            with pytest.raises(Forbidden, match="of the same user"):
                tokens.delete(session, reference, actor)
        tokens.delete(session, TokenReference(id=own), actor)
    assert known(value)


@pytest.mark.parametrize("personal", ["write_feature", "approve_job"])
@pytest.mark.parametrize("gained", [True, False])
def test_only_the_admin_changes_what_is_done_in_the_name_of_somebody_else(personal: str, gained: bool) -> None:
    before, after = ("read_job", personal) if gained else (personal, "read_job")
    actor = Actor(name="alice", privileges=frozenset(Privilege))
    _, theirs = create(privileges=[before])
    _, own = create(privileges=[before], forwho="alice")
    with transaction() as session:
        with pytest.raises(Forbidden, match="Only the admin"):
            change_privileges(session, {"id": theirs, "privileges": [after]}, actor)
        change_privileges(session, {"id": own, "privileges": [after]}, actor)
        change_privileges(session, {"id": theirs, "privileges": [after]}, ADMIN)


def test_nobody_makes_an_approver_of_another_name_for_himself() -> None:
    actor = Actor(name="alice", privileges=frozenset(Privilege))
    with transaction() as session:
        with pytest.raises(Forbidden, match="approve_job"):
            tokens.create(session, TokenBody().read({"privileges": ["approve_job"], "forwho": "zoe"}), actor)
        tokens.create(session, TokenBody().read({"privileges": ["approve_job"], "forwho": "alice"}), actor)


def test_a_token_that_expires_adds_no_privileges_to_one_that_is_valid_for_longer() -> None:
    value, _ = create(privileges=["write_token", "read_job", "write_job"], expiresAt="2100-01-01T00:00:00Z")
    actor = authenticate(value)
    _, longer = create()
    _, shorter = create(expiresAt="2099-01-01T00:00:00Z")
    more = ["read_job", "write_job"]
    with transaction() as session:
        with pytest.raises(Forbidden, match="valid for longer"):
            change_privileges(session, {"id": longer, "privileges": more}, actor)
        change_privileges(session, {"id": longer, "privileges": ["read_job"]}, actor)
        change_privileges(session, {"id": shorter, "privileges": more}, actor)


def test_tokens_are_listed_without_their_values_the_newest_first() -> None:
    value, first = create(note="n", expiresAt="2100-01-01T00:00:00+01:00")
    _, second = create()
    authenticate(value)
    with transaction() as session:
        page, total = tokens.listing(session, limit=1, offset=1)
        assert [shown["id"] for shown in tokens.listing(session, limit=9, offset=0)[0]] == [second, first]
    [shown] = page
    assert total == 2
    assert shown.pop("createdAt").endswith("Z")
    assert shown.pop("lastUsedAt").endswith("Z")
    assert shown == {
        "id": first,
        "forwho": "bob",
        "note": "n",
        "privileges": ["read_job"],
        "ownOnly": False,
        "expiresAt": "2099-12-31T23:00:00Z",
    }


def test_the_password_of_a_development_run_is_admin_until_it_is_changed(configure: Any) -> None:
    configure(development="true", admin_password=None)
    assert authenticate("admin").admin
    set_password("correct horse")
    assert not known("admin")
    assert authenticate("correct horse", address="a") == Actor(name="admin", admin=True, address="a")


def test_elsewhere_admin_is_never_the_password(configure: Any) -> None:
    configure(admin_password=None)
    assert not known("admin")


def test_the_configured_password_counts_only_while_none_is_stored(configure: Any) -> None:
    configure(development="true", admin_password="from outside")
    assert known("from outside")
    assert not known("admin")
    set_password("from inside")
    assert not known("from outside")
    assert known("from inside")


def test_a_changed_password_ends_the_old_one_at_once_whatever_is_cached() -> None:
    set_password("the first one")
    assert known("the first one")
    set_password("the second one")
    assert not known("the first one")
    assert known("the second one")
    set_password("the first one")
    assert known("the first one")
    with transaction() as session:
        assert session.scalars(select(AdminPassword.version)).one() == 3


def test_the_password_is_looked_up_by_one_query_and_verified_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    set_password("correct horse")
    verified: list[str] = []
    verify = password._verify
    monkeypatch.setattr(password, "_verify", lambda hash, text: verified.append(text) or verify(hash, text))
    for _ in range(3):
        with counted_statements() as seen:
            assert known("correct horse")
        assert len(seen) == 1
    assert verified == ["correct horse"]


@pytest.mark.parametrize("actor", [Actor(name="alice", privileges=frozenset(Privilege)), Actor(name="admin")])
def test_only_the_admin_changes_the_password(actor: Actor) -> None:
    with pytest.raises(Forbidden):
        set_password("correct horse", actor)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ({}, MissingParameter),
        ({"token": ""}, MissingParameter),
        ({"token": None}, MissingParameter),
        ({"token": "short"}, WrongParameter),
        ({"token": "x" * 129}, WrongParameter),
        ({"token": "Ab1" * 8}, WrongParameter),
        ({"token": 12345678}, WrongParameter),
        ({"token": "12345678\x00"}, WrongParameter),
        ({"token": "correct horse", "password": "x"}, WrongParameter),
        ([], WrongParameter),
    ],
)
def test_a_bad_password_is_refused_without_being_repeated(raw: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught, transaction() as session:
        tokens.change_admin_password(session, AdminBody().read(raw), ADMIN)
    assert "1234" not in str(caught.value)


def test_a_run_does_not_start_without_a_password(configure: Any) -> None:
    def check() -> None:
        with transaction() as session:
            tokens.check_startup(session)

    configure(admin_password=None, development=None)
    with pytest.raises(ConfigurationError, match="PIPELINE_ADMIN_PASSWORD"):
        check()
    configure(development="true")
    check()
    configure(development=None, admin_password="from outside")
    check()
    for bad in ("admin", "Ab1" * 8):
        configure(admin_password=bad)
        with pytest.raises(ConfigurationError, match="PIPELINE_ADMIN_PASSWORD must"):
            check()
    set_password("correct horse")
    check()
    configure(admin_password=None)
    check()


def test_every_change_is_in_the_audit_log_without_secrets() -> None:
    value, id = create()
    with transaction() as session:
        change_privileges(session, {"id": id, "privileges": ["write_job"]}, ADMIN)
        tokens.delete(session, TokenReference(id=id), ADMIN)
    set_password("correct horse")
    entries = trail()
    assert [(entry["action"], entry["target"]) for entry in entries] == [
        ("admin.password.change", "admin"),
        ("token.delete", id),
        ("token.change", id),
        ("token.create", id),
    ]
    assert entries[2]["before"]["privileges"] == ["read_job"]
    assert entries[2]["after"]["privileges"] == ["write_job"]
    assert {(entry["actor"], entry["address"], entry["requestID"]) for entry in entries} == {
        ("admin", "192.0.2.1", "r9")
    }
    assert value not in str(entries)
    assert "correct horse" not in str(entries)
