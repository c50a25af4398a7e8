"""Requests that may be sent again: one with the same Idempotency-Key is answered with what the first one made.

Keys belong to the token that sends them, and are kept for `operations.retention.IDEMPOTENCY_KEY_HOURS`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now
from pipeline_core.database.models import IdempotencyKey
from pipeline_core.errors import Conflict


@dataclass(frozen=True, slots=True)
class RepeatableRequest:
    """The key that a client sent, and a digest of all that the request asks for."""

    key: str
    digest: str


def claim(session: Session, actor: Actor, request: RepeatableRequest | None, made_id: str) -> str | None:
    """Take the request's key for what it is about to make. Returns the ID of what an earlier request with it made, if any.

    Without a request there is no key to take. Raises Conflict when the key was used for another request.
    """
    if request is None:
        return None
    token_id = actor.token_id or actor.name
    taken = session.execute(
        insert(IdempotencyKey)
        .values(token_id=token_id, key=request.key, digest=request.digest, made_id=made_id, created_at=now())
        .on_conflict_do_nothing()
        .returning(IdempotencyKey.made_id)
    ).scalar_one_or_none()
    if taken:
        return None
    earlier = session.execute(
        select(IdempotencyKey.digest, IdempotencyKey.made_id).where(
            IdempotencyKey.token_id == token_id, IdempotencyKey.key == request.key
        )
    ).one()
    if earlier.digest != request.digest:
        raise Conflict(
            f'The Idempotency-Key "{request.key}" was used with another request, which made {earlier.made_id}.'
        )
    return str(earlier.made_id)
