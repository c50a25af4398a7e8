"""Which subscribers have a wake-up on its way, so that each change of a busy time does not send another.

The note is taken when the wake-up is sent, and removed when it has arrived, before deliveries are claimed: what commits after
that sends a wake-up again. It is in Redis and expires, because a wake-up may be lost.
"""

from __future__ import annotations

from pipeline_core.common.redis import quick_redis
from pipeline_core.settings import settings


def note(subscriber: str) -> bool:
    """Note that a wake-up for the subscriber is on its way. Returns False when one is already. Raises RedisError."""
    redis, expiry = quick_redis(), round(settings().wake_after_seconds * 1000)
    return redis is None or bool(redis.set(_key(subscriber), "1", nx=True, px=max(expiry, 1)))


def arrived(subscriber: str) -> None:
    """Remove the note: a wake-up has arrived. Raises RedisError."""
    if redis := quick_redis():
        redis.delete(_key(subscriber))


def _key(subscriber: str) -> str:
    return f"{settings().redis_prefix}woken:{subscriber}"
