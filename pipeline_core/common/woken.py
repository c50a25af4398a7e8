"""Which subscribers and runs have a wake-up on its way, so that each change of a busy time does not send another.

The note is taken when the wake-up is sent, and removed when it has arrived, before the database is read for what is due: what
commits after that sends a wake-up again. It is in Redis and expires, because a wake-up may be lost.
"""

from __future__ import annotations

from enum import StrEnum

import structlog
from redis.exceptions import RedisError

from pipeline_core.common.redis import quick_redis
from pipeline_core.settings import settings

log = structlog.get_logger(__name__)


class Kind(StrEnum):
    """What is woken."""

    SUBSCRIBER = "subscriber"
    RUN = "run"


def note(kind: Kind, id: str) -> bool:
    """Note that a wake-up is on its way. Returns False when one is already. Raises RedisError."""
    redis, expiry = quick_redis(), round(settings().wake_after_seconds * 1000)
    return redis is None or bool(redis.set(_key(kind, id), "1", nx=True, px=max(expiry, 1)))


def arrived(kind: Kind, id: str) -> None:
    """Remove the note: a wake-up has arrived. While Redis is unavailable it stays until it expires."""
    try:
        if redis := quick_redis():
            redis.delete(_key(kind, id))
    except RedisError as error:
        log.warning("wake-up not removed, so that it expires: Redis is unavailable", kind=kind, id=id, error=str(error))


def _key(kind: Kind, id: str) -> str:
    return f"{settings().redis_prefix}woken:{kind}:{id}"
