"""What keeps a slow or failing plugin from holding the workers: a limit of calls at a time, and a circuit breaker.

Both are shared by all workers through Redis: one script before a call and one after it. Redis is a help here and not a
condition: while it is away, calls go on unguarded.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from pipeline_core.metrics.totals import Metric, duration_fields
from pipeline_core.metrics.totals import key as totals_key
from pipeline_core.plugins import guard_scripts as scripts
from pipeline_core.plugins.failures import AddressRefused, BadAnswer, CircuitOpen, NoRoom, NotToBeHad
from pipeline_core.settings import Settings

log = structlog.get_logger(__name__)

REDIS_TIMEOUT = 0.5
"""Seconds that Redis is given before a call goes on without it."""
REDIS_PAUSE = 2.0
"""Seconds for which Redis is not asked again after it was away."""
MARGIN = 10.0
"""Seconds beyond a call's longest time after which its place is free again: whoever made it must have died."""
ROOM_RETRY = 1.0
"""Seconds after which to look for room again."""


class Circuit(StrEnum):
    """Half-open: the pause is over, and one call is to show whether the plugin is back."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Outcome(StrEnum):
    """How a request ended, as far as the guard cares."""

    ANSWERED = "answered"
    BAD_ANSWER = "bad answer"
    NOT_TO_BE_HAD = "not to be had"
    ABANDONED = "abandoned"

    @property
    def mark(self) -> str:
        """What it means for the circuit."""
        match self:
            case Outcome.ANSWERED | Outcome.BAD_ANSWER:
                return "up"
            case Outcome.NOT_TO_BE_HAD:
                return "down"
            case _:
                return "unknown"


@dataclass(frozen=True, slots=True)
class Record:
    """One request that ended: when (seconds since the epoch), how, and after how many seconds."""

    at: float
    outcome: Outcome
    seconds: float


@dataclass(frozen=True, slots=True)
class Health:
    """`failures` counts those in a row; `cause` is the last one's; `recent` begins with the latest."""

    circuit: Circuit
    calls: int
    failures: int
    cause: str
    recent: tuple[Record, ...]

    @property
    def latency_seconds(self) -> float | None:
        """The mean time of the recent requests that were answered."""
        times = [record.seconds for record in self.recent if record.outcome.mark == "up"]
        return fmean(times) if times else None


class Guard:
    """Lets calls in, and learns from how they end. `redis` ought to give up quickly; None guards nothing."""

    def __init__(
        self, redis: Redis | None, *, prefix: str, concurrency: int, failures: int, open_seconds: float
    ) -> None:
        self._redis = redis
        self._prefix = prefix
        self._concurrency = concurrency
        self._failures = failures
        self._open_ms = round(open_seconds * 1000)
        self._away_until = 0.0
        if redis is not None:
            self._enter = redis.register_script(scripts.ENTER)
            self._leave = redis.register_script(scripts.LEAVE)
            self._look = redis.register_script(scripts.LOOK)

    @classmethod
    def configured(cls, settings: Settings, redis: Redis | None = None, concurrency: int | None = None) -> Guard:
        """As the settings say, with another limit of calls at a time if `concurrency` is given.

        Without `redis` it has a connection of its own that gives up after REDIS_TIMEOUT.
        """
        if redis is None and settings.redis_url:
            redis = Redis.from_url(
                settings.redis_url,
                socket_timeout=REDIS_TIMEOUT,
                socket_connect_timeout=REDIS_TIMEOUT,
                retry=Retry(NoBackoff(), 1),
            )
        return cls(
            redis,
            prefix=settings.redis_prefix,
            concurrency=concurrency or settings.plugin_concurrency,
            failures=settings.breaker_failures,
            open_seconds=settings.breaker_open_seconds,
        )

    @contextmanager
    def entered(self, key: str, seconds: float) -> Iterator[None]:
        """One request to the plugin `key`, which takes at most `seconds`. Raises NoRoom and CircuitOpen."""
        call = self._let_in(key, seconds)
        started = time.monotonic()
        outcome, cause = Outcome.ABANDONED, ""
        try:
            yield
            outcome = Outcome.ANSWERED
        except AddressRefused:
            raise
        except BadAnswer:
            outcome = Outcome.BAD_ANSWER
            raise
        except NotToBeHad as failure:
            outcome, cause = Outcome.NOT_TO_BE_HAD, failure.cause
            raise
        finally:
            if call:
                self._let_out(key, call, Record(time.time(), outcome, time.monotonic() - started), cause)

    def health(self, key: str) -> Health | None:
        """How the plugin `key` does, for display; None when Redis cannot say."""
        if self._redis is None:
            return None
        try:
            found = self._look(keys=self._keys(key), args=[self._open_ms])
        except RedisError as error:
            self._went_away(error)
            return None
        circuit, calls, failures, cause, recent = found
        return Health(Circuit(_text(circuit)), calls, failures, _text(cause), tuple(map(_record, recent)))

    def _let_in(self, key: str, seconds: float) -> str | None:
        """The call's id; None when Redis is away."""
        if self._redis is None or time.monotonic() < self._away_until:
            return None
        call = uuid.uuid4().hex
        span = round((seconds + MARGIN) * 1000)
        try:
            verdict, wait, cause = self._enter(
                keys=self._keys(key), args=[call, self._concurrency, span, self._open_ms]
            )
        except RedisError as error:
            self._went_away(error)
            return None
        match _text(verdict):
            case "open":
                raise CircuitOpen(f"it is left alone for a while after: {_text(cause)}", retry_after=wait / 1000)
            case "full":
                raise NoRoom(f"{self._concurrency} calls of it are under way already", retry_after=ROOM_RETRY)
        return call

    def _let_out(self, key: str, call: str, record: Record, cause: str) -> None:
        entry = json.dumps([record.at, record.outcome, record.seconds])
        added = [part for pair in duration_fields((key, record.outcome), record.seconds) for part in pair]
        try:
            change = self._leave(
                keys=[*self._keys(key), totals_key(self._prefix, Metric.PLUGIN_CALL_SECONDS)],
                args=[call, record.outcome.mark, self._failures, entry, cause, *added],
            )
        except RedisError as error:
            self._went_away(error)
            return
        if change:
            log.warning("plugin circuit changed", plugin=key, circuit=_text(change), cause=cause)

    def _keys(self, key: str) -> list[str]:
        stem = f"{self._prefix}plugin:{key}:"
        return [f"{stem}calls", f"{stem}circuit", f"{stem}recent"]

    def _went_away(self, error: RedisError) -> None:
        self._away_until = time.monotonic() + REDIS_PAUSE
        log.warning("plugin calls go on unguarded: Redis is away", error=str(error))


def _record(entry: bytes | str) -> Record:
    at, outcome, seconds = json.loads(entry)
    return Record(at, Outcome(outcome), seconds)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
