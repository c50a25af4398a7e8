"""Connections to Redis: all of the service's, except Celery's own.

The service works without Redis: what cannot be done while it is unavailable is skipped, or done later. Best-effort callers
check `outage()` first, so that after one failure the others in the process do not wait for the time-out too.
"""

from __future__ import annotations

import time
from typing import Any

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel

from pipeline_core.runtime import part
from pipeline_core.settings import settings
from pipeline_core.settings.sentinel import SentinelUrl, is_sentinel

log = structlog.get_logger(__name__)

QUICK_SECONDS = 0.5
"""How long `quick_redis` waits for an answer."""
PATIENT_SECONDS = 2.0
"""How long `patient_redis` and `answers` wait for an answer."""
PAUSE_SECONDS = 2.0
"""How long Redis counts as unavailable after a failure."""


def connect(url: str, seconds: float) -> Redis:
    """A client with this time-out for connecting and for each answer; it retries once after a broken connection.

    With the URL of Sentinels it is a client of the primary, which it asks them for whenever it connects.
    """
    options: dict[str, Any] = {
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "retry": Retry(NoBackoff(), 1),
        "health_check_interval": 25,
        "decode_responses": True,
    }
    if not is_sentinel(url):
        return Redis.from_url(url, **options)
    found = SentinelUrl.parse(url)
    account = {"username": found.username, "password": found.password, "db": found.database}
    redis_py: Any = Sentinel
    sentinels = redis_py(found.sentinels, sentinel_kwargs=sentinel_options(found, seconds), **account, **options)
    client: Redis = sentinels.master_for(found.master)
    return client


def sentinel_options(url: SentinelUrl, seconds: float) -> dict[str, Any]:
    """How to connect to the Sentinels: each is asked once, since the next may be alive, and redis-py would wait for this one."""
    return {
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "password": url.sentinel_password,
        "retry": Retry(NoBackoff(), 0),
    }


def _close(client: Redis | None) -> None:
    if client:
        client.close()


@part(close=_close)
def quick_redis() -> Redis | None:
    """The client, with a short time-out, for what can be skipped, such as counting; None when no Redis is configured."""
    return connect(settings().redis_url, QUICK_SECONDS) if settings().redis_url else None


@part(close=Redis.close)
def patient_redis() -> Redis:
    """The client, with a longer time-out, for what should not be skipped, such as parked chains and the lengths of queues."""
    return connect(settings().redis_url, PATIENT_SECONDS)


def answers(url: str, seconds: float = PATIENT_SECONDS) -> bool:
    """Whether the Redis at this URL answers a ping."""
    return error_of(url, seconds) is None


def error_of(url: str, seconds: float = PATIENT_SECONDS) -> Exception | None:
    """Why the Redis at this URL does not answer a ping; None when it does."""
    try:
        with connect(url, seconds) as client:
            client.ping()
    except (RedisError, ValueError) as error:
        return error
    return None


class Outage:
    """Whether Redis was unavailable a moment ago."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def present(self) -> bool:
        """Whether a request to Redis failed less than PAUSE_SECONDS ago, so that none should be made now."""
        return time.monotonic() < self._until

    def begin(self, consequence: str, error: Exception) -> None:
        """Record that a request failed, and log its consequence."""
        self._until = time.monotonic() + PAUSE_SECONDS
        log.warning(f"{consequence}: Redis is unavailable", error=str(error))


@part
def outage() -> Outage:
    """The outage that all of this process's best-effort users of Redis share."""
    return Outage()
