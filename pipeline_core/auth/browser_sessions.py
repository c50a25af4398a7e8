"""Sessions of browsers: who signed in with a token or the admin's password is known by a random ID in a cookie.

A session gives no more than what it was made with. It is checked against that at each request, so that it ends at once when the
token is revoked or expires, or the password is changed.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update
from sqlalchemy.orm import Session

from pipeline_core.auth import password, tokens
from pipeline_core.auth.actor import ADMIN, Actor
from pipeline_core.common.clock import now
from pipeline_core.database.models import BrowserSession, Token, table
from pipeline_core.errors import Unauthenticated

LONGEST = timedelta(hours=12)
"""How long a session lasts, however much it is used."""
LONGEST_UNUSED = timedelta(minutes=30)
"""How long it lasts without a request."""

_ID_BYTES = 32
_USE_NOTED_EVERY = timedelta(minutes=1)

_SESSIONS = table(BrowserSession)
_TOKENS = table(Token)
_FOUND = (
    select(
        *tokens.ACTOR_COLUMNS, _SESSIONS.c.hash, _SESSIONS.c.token_id, _SESSIONS.c.password_hash, _SESSIONS.c.seen_at
    )
    .select_from(_SESSIONS.outerjoin(_TOKENS, _SESSIONS.c.token_id == _TOKENS.c.id))
    .where(
        _SESSIONS.c.hash == bindparam("digest"),
        _SESSIONS.c.created_at > bindparam("created_after"),
        _SESSIONS.c.seen_at > bindparam("seen_after"),
        tokens.NOT_EXPIRED,
    )
)


def sign_in(session: Session, credential: str, *, address: str = "", request_id: str = "") -> tuple[str, Actor]:
    """A new session for who has this token or password: its ID, which is not kept, and the actor.

    Raises Unauthenticated as `tokens.authenticate` does.
    """
    actor = tokens.authenticate(session, credential, address=address, request_id=request_id)
    session_id = secrets.token_urlsafe(_ID_BYTES)
    moment = now()
    session.execute(
        insert(_SESSIONS).values(
            hash=tokens.digest_of(session_id),
            token_id=actor.token_id or None,
            password_hash=(tokens.stored_password(session) or password.hashed(credential)) if actor.admin else None,
            created_at=moment,
            seen_at=moment,
        )
    )
    return session_id, actor


def authenticate(database: Session | Connection, session_id: str, *, address: str = "", request_id: str = "") -> Actor:
    """The one who signed in. Raises Unauthenticated when the session has ended, or what it was made with."""
    moment = now()
    found = database.execute(
        _FOUND,
        {
            "digest": tokens.digest_of(session_id),
            "created_after": moment - LONGEST,
            "seen_after": moment - LONGEST_UNUSED,
        },
    ).one_or_none()
    if found is None or (
        found.token_id is None and not password.still_counts(found.password_hash, tokens.stored_password(database))
    ):
        raise Unauthenticated("The session has ended: sign in again.")
    if found.seen_at <= moment - _USE_NOTED_EVERY:
        database.execute(update(_SESSIONS).where(_SESSIONS.c.hash == found.hash).values(seen_at=moment))
    if found.token_id is None:
        return Actor(name=ADMIN, admin=True, address=address, request_id=request_id)
    tokens.note_use(database, found)
    return tokens.actor_of(found, address=address, request_id=request_id)


def sign_out(session: Session, session_id: str) -> None:
    """End a session; nothing happens when there is none."""
    session.execute(delete(_SESSIONS).where(_SESSIONS.c.hash == tokens.digest_of(session_id)))


def delete_ended(session: Session, limit: int) -> int:
    """Delete sessions that have ended, at most `limit`. Returns how many."""
    moment = now()
    ended = (
        select(_SESSIONS.c.hash)
        .where(or_(_SESSIONS.c.seen_at <= moment - LONGEST_UNUSED, _SESSIONS.c.created_at <= moment - LONGEST))
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("ended")
    )
    gone = session.execute(delete(_SESSIONS).where(_SESSIONS.c.hash == ended.c.hash).returning(_SESSIONS.c.hash))
    return len(gone.all())
