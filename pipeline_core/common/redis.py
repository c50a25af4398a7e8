"""Connections to Redis. All of the service's are made here, except Celery's own.

Redis is a help and no condition: what cannot be done while it is away is left undone, or done later. Whoever works so asks
`outage()` first, so that one failure spares all others in the process the wait.
"""

from __future__ import annotations

import time

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from pipeline_core.runtime import part
from pipeline_core.settings import settings

log = structlog.get_logger(__name__)

QUICK_SECONDS = 0.5
"""How long `quick_redis` waits for an answer."""
PATIENT_SECONDS = 2.0
"""How long `patient_redis` and `answers` wait for an answer."""
PAUSE_SECONDS = 2.0
"""For so long after a failure Redis counts as away."""


def connect(url: str, seconds: float) -> Redis:
    """A client that waits so long for a connection and for each answer, and tries a broken connection once more."""
    return Redis.from_url(
        url,
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        retry=Retry(NoBackoff(), 1),
        health_check_interval=25,
        decode_responses=True,
    )


def _close(client: Redis | None) -> None:
    if client:
        client.close()


@part(close=_close)
def quick_redis() -> Redis | None:
    """The client for what goes on without Redis, such as counting; None when no Redis is configured."""
    return connect(settings().redis_url, QUICK_SECONDS) if settings().redis_url else None


@part(close=Redis.close)
def patient_redis() -> Redis:
    """The client for what is worth a wait, such as parked chains and the lengths of queues."""
    return connect(settings().redis_url, PATIENT_SECONDS)


def answers(url: str, seconds: float = PATIENT_SECONDS) -> bool:
    """Whether a Redis is there and answers a ping."""
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
    """Whether Redis was away a moment ago."""

    def __init__(self) -> None:
        self._until = 0.0

    @property
    def present(self) -> bool:
        """Whether a request to Redis failed less than PAUSE_SECONDS ago, so that none should be tried now."""
        return time.monotonic() < self._until

    def begin(self, consequence: str, error: Exception) -> None:
        """Note that a request failed, and log what is not done now."""
        self._until = time.monotonic() + PAUSE_SECONDS
        log.warning(f"{consequence}: Redis is unavailable", error=str(error))


@part
def outage() -> Outage:
    """The outage that all of this process's best-effort users of Redis share."""
    return Outage()
