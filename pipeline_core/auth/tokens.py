"""Tokens and the admin's password: authenticating by them, and changing them.

Privileges are the caller's to check. That nobody grants what they do not hold, or to whom they may not, is checked here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.auth import audit, password
from pipeline_core.auth.actor import ADMIN, SYSTEM, Actor
from pipeline_core.auth.audit import Action
from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.database import connected, execute_alone
from pipeline_core.database.counting import count_up_to
from pipeline_core.database.models import AdminPassword, Token, table
from pipeline_core.database.prepared import Prepared
from pipeline_core.errors import Forbidden, NotFound, Unauthenticated
from pipeline_core.validation.texts import shown, storable

_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 24
_USE_NOTED_EVERY = timedelta(minutes=1)

# Every request asks one of these: columns of tables, not objects, and built once.
_TOKENS = table(Token)
ACTOR_COLUMNS = (
    _TOKENS.c.id,
    _TOKENS.c.forwho,
    _TOKENS.c.privileges,
    _TOKENS.c.own_only,
    _TOKENS.c.expires_at,
    _TOKENS.c.last_used_at,
)
"""What is read of a token with each request."""
NOT_EXPIRED = or_(_TOKENS.c.expires_at.is_(None), _TOKENS.c.expires_at > func.now())
_VALID = Prepared(select(*ACTOR_COLUMNS, _TOKENS.c.hash).where(_TOKENS.c.hash == bindparam("digest"), NOT_EXPIRED))
_UNKNOWN = "The token is unknown, revoked or expired."
_PASSWORD = select(table(AdminPassword).c.hash)

_BY_NAME = {
    Privilege.WRITE_FEATURE: "would own the features of {}",
    Privilege.APPROVE_JOB: "would approve as {}, also the jobs of whoever has made the token",
}
"""What these allow depends on the bearer's name, and how: only the admin gives them to somebody else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenDefinition:
    """A token that is asked for. `privileges` stand in the order of `Privilege`, each once."""

    privileges: tuple[Privilege, ...]
    forwho: str
    note: str = ""
    own_only: bool = False
    expires_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenReference:
    """A token by its value or by its id; the other one is empty."""

    value: str = ""
    id: str = ""


def authenticate(database: Session | Connection, value: str, *, address: str = "", request_id: str = "") -> Actor:
    """The one whose token or password `value` is; `address` and `request_id` go into the actor.

    Raises Unauthenticated when there is none: unknown, revoked or expired.
    """
    if not value:
        raise Unauthenticated("The request carries no token; send it in the header `token` or `Authorization: Bearer`.")
    if password.looks_like_token(value):
        connection = database.connection() if isinstance(database, Session) else database
        token = _one(_VALID.execute(connection, {"digest": digest_of(value)}).all(), value)
        note_use(database, token)
        return actor_of(token, address=address, request_id=request_id)
    if password.accepts(stored_password(database), value):
        return Actor(name=ADMIN, admin=True, address=address, request_id=request_id)
    raise Unauthenticated(_UNKNOWN)


def authenticate_alone(value: str, *, address: str = "", request_id: str = "") -> Actor:
    """The same without a session or a connection, for what every request asks. Raises Unavailable, too."""
    if password.looks_like_token(value):
        token = _one(execute_alone(_VALID, {"digest": digest_of(value)}), value)
        if not _use_is_due(token):
            return actor_of(token, address=address, request_id=request_id)
    with connected() as connection:
        return authenticate(connection, value, address=address, request_id=request_id)


def actor_of(token: Any, *, address: str, request_id: str) -> Actor:
    """The bearer of a token, from a row with ACTOR_COLUMNS."""
    return Actor(
        name=token.forwho,
        token_id=token.id,
        privileges=frozenset(map(Privilege, token.privileges)),
        own_only=token.own_only,
        expires_at=token.expires_at,
        address=address,
        request_id=request_id,
    )


def require_grantable(privileges: Iterable[Privilege], actor: Actor) -> None:
    """Raises Forbidden when there are some among them that the actor does not hold."""
    lacking = [privilege for privilege in privileges if not actor.may(privilege)]
    if lacking:
        raise Forbidden(f"Nobody can grant what they do not hold: this token lacks {', '.join(lacking)}.")


def require_may_create(definition: TokenDefinition, actor: Actor) -> None:
    """Raises Forbidden when the token would allow more than the actor may do."""
    require_grantable(definition.privileges, actor)
    if actor.own_only and not (definition.own_only and definition.forwho == actor.name):
        raise Forbidden(f"An ownOnly token can create only ownOnly tokens for {shown(actor.name)}.")
    _require_own_name(definition.privileges, definition.forwho, actor)
    if _outlives(definition.expires_at, actor):
        raise Forbidden(
            f"This token expires at {rfc3339(actor.expires_at)}, so that it can create none that is valid for longer: "
            "give expiresAt, no later than that."
        )


def _require_own_name(privileges: Collection[str], forwho: str, actor: Actor) -> None:
    personal = [privilege for privilege in _BY_NAME if privilege in privileges]
    if personal and forwho != actor.name and not actor.admin:
        consequences = " and ".join(_BY_NAME[privilege].format(shown(forwho)) for privilege in personal)
        raise Forbidden(
            f"Only the admin may create or change tokens of others with {', '.join(sorted(personal))}: "
            f"the bearer {consequences}."
        )


def _outlives(expires_at: datetime | None, actor: Actor) -> bool:
    return actor.expires_at is not None and (expires_at is None or expires_at > actor.expires_at)


def create(session: Session, definition: TokenDefinition, actor: Actor) -> tuple[str, str]:
    """Create a token: its value, which is not kept, and its id. Raises Forbidden as `require_may_create` does."""
    require_may_create(definition, actor)
    moment = now()
    value = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    token = Token(
        id=f"t{secrets.token_hex(8)}",
        hash=digest_of(value),
        forwho=definition.forwho,
        note=definition.note,
        privileges=list(definition.privileges),
        own_only=definition.own_only,
        created_at=moment,
        expires_at=definition.expires_at,
    )
    session.add(token)
    audit.record(session, actor, Action.TOKEN_CREATE, token.id, after=_payload(token))
    return value, token.id


def change_privileges(
    session: Session, reference: TokenReference, privileges: Sequence[Privilege], actor: Actor
) -> None:
    """Give a token these privileges and no others, from now on. Raises Forbidden and NotFound."""
    require_grantable(privileges, actor)
    token = _find(session, reference)
    if actor.own_only and not (token.own_only and token.forwho == actor.name):
        raise Forbidden("An ownOnly token can change only ownOnly tokens of the same user.")
    _require_own_name({*privileges, *token.privileges}, token.forwho, actor)
    if _outlives(token.expires_at, actor) and not set(privileges) <= set(token.privileges):
        raise Forbidden("A token that expires can add no privileges to one that is valid for longer.")
    before = _payload(token)
    token.privileges = list(privileges)
    audit.record(session, actor, Action.TOKEN_CHANGE, token.id, before=before, after=_payload(token))


def delete(session: Session, reference: TokenReference, actor: Actor) -> None:
    """Revoke a token. Raises Forbidden and NotFound."""
    token = _find(session, reference)
    if not actor.sees(token.forwho):
        raise Forbidden("An ownOnly token can revoke only tokens of the same user.")
    audit.record(session, actor, Action.TOKEN_DELETE, token.id, before=_payload(token))
    session.delete(token)


def listing(session: Session, *, limit: int, offset: int, actor: Actor = SYSTEM) -> tuple[list[dict[str, Any]], int]:
    """A page of the tokens that `actor` sees, the newest first, and how many there are (`count_up_to`)."""
    query = select(Token)
    if actor.own_only:
        query = query.where(Token.forwho == actor.name)
    page = session.scalars(query.order_by(Token.created_at.desc(), Token.id).limit(limit).offset(offset))
    return [_payload(token) for token in page], count_up_to(session, query)


def of_actor(actor: Actor) -> dict[str, Any]:
    """Whose token an authenticated request carries, and what it allows."""
    return {
        "id": actor.token_id,
        "forwho": actor.name,
        "admin": actor.admin,
        "privileges": [privilege for privilege in Privilege if actor.may(privilege)],
        "ownOnly": actor.own_only,
        "expiresAt": rfc3339(actor.expires_at),
    }


def change_admin_password(session: Session, new: str, actor: Actor) -> None:
    """Set the admin's password, one that `password.error_of` accepts; the old one is worth nothing from the commit on.

    Raises Forbidden for everyone but the admin.
    """
    if not actor.admin:
        raise Forbidden("Only the admin may change the admin's password.")
    values = {"hash": password.hashed(new), "changed_at": now()}
    session.execute(
        insert(AdminPassword)
        .values(id=1, version=1, **values)
        .on_conflict_do_update(index_elements=["id"], set_={**values, "version": AdminPassword.version + 1})
    )
    audit.record(session, actor, Action.ADMIN_PASSWORD_CHANGE, ADMIN)


def check_startup(session: Session) -> None:
    """Raises ConfigurationError when nobody could log in as admin, or anybody could by the well-known password."""
    if stored_password(session) is None:
        password.check_configured()


def _one(found: Sequence[Any], value: str) -> Any:
    """The row of the token. Raises Unauthenticated when there is none."""
    if found and hmac.compare_digest(found[0].hash, digest_of(value)):
        return found[0]
    raise Unauthenticated(_UNKNOWN)


def _use_is_due(token: Any) -> bool:
    return token.last_used_at is None or token.last_used_at <= now() - _USE_NOTED_EVERY


def note_use(database: Session | Connection, token: Any) -> None:
    """Write down that a token, a row with ACTOR_COLUMNS, was used now, at most once a minute."""
    if not _use_is_due(token):
        return
    moment = now()
    recent = moment - _USE_NOTED_EVERY
    # Another request of the same token may be noting the same: skip the row then instead of waiting for its end.
    due = (
        select(_TOKENS.c.id)
        .where(_TOKENS.c.id == token.id, or_(_TOKENS.c.last_used_at.is_(None), _TOKENS.c.last_used_at <= recent))
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    database.execute(update(_TOKENS).where(_TOKENS.c.id == due).values(last_used_at=moment))


def stored_password(database: Session | Connection) -> str | None:
    """The hash of the admin's password; None while none is stored."""
    return database.execute(_PASSWORD).scalar_one_or_none()


def _find(session: Session, reference: TokenReference) -> Token:
    """The token, locked until the transaction ends. Raises NotFound."""
    wanted = Token.hash == digest_of(reference.value) if reference.value else Token.id == reference.id
    query = select(Token).where(wanted).with_for_update().execution_options(populate_existing=True)
    token = session.scalars(query).one_or_none() if storable(reference.id) else None
    if token is None:
        raise NotFound("There is no such token.")
    return token


def digest_of(value: str) -> str:
    """What is stored of a random text that grants access."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def _payload(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "forwho": token.forwho,
        "note": token.note,
        "privileges": list(token.privileges),
        "ownOnly": token.own_only,
        "createdAt": rfc3339(token.created_at),
        "expiresAt": rfc3339(token.expires_at),
        "lastUsedAt": rfc3339(token.last_used_at),
    }
