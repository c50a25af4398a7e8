"""The guard of plugin calls: a limit of calls at a time per plugin, and a circuit breaker, so that a slow or failing plugin
does not hold the workers.

Both are shared by all workers through Redis: one script before an attempt and one after it. While Redis is unavailable,
calls are made unguarded.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from statistics import fmean
from typing import Any

import structlog
from redis import Redis
from redis.exceptions import RedisError

from pipeline_core.common.clock import rfc3339
from pipeline_core.common.redis import QUICK_SECONDS, Outage, connect, outage, quick_redis
from pipeline_core.metrics.totals import Metric, duration_fields
from pipeline_core.metrics.totals import key as totals_key
from pipeline_core.plugins.errors import (
    AddressRefused,
    BadAnswer,
    CircuitOpen,
    ConcurrencyLimit,
    JobRejected,
    PluginUnavailable,
)
from pipeline_core.runtime import part
from pipeline_core.settings import Settings, settings

log = structlog.get_logger(__name__)

MARGIN = 10.0
"""Seconds after an attempt's time-out until it no longer counts: the worker that made it must have died."""
LIMIT_RETRY = 1.0
"""Seconds until the next attempt after the limit was reached."""


class Circuit(StrEnum):
    """The state of a circuit breaker. Half-open: the pause is over, and one probing call shows whether the plugin is back."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    ANSWERED = "answered"
    BAD_ANSWER = "bad answer"
    REJECTED = "rejected"
    UNAVAILABLE = "unavailable"
    ABANDONED = "abandoned"

    @property
    def mark(self) -> str:
        """The state of the plugin that it shows to the circuit breaker: `up`, `down` or `unknown`."""
        match self:
            case AttemptOutcome.ANSWERED | AttemptOutcome.BAD_ANSWER | AttemptOutcome.REJECTED:
                return "up"
            case AttemptOutcome.UNAVAILABLE:
                return "down"
            case _:
                return "unknown"


@dataclass(frozen=True, slots=True)
class RecentAttempt:
    """One attempt that ended: when (seconds since the epoch), how, and after how many seconds."""

    at: float
    outcome: AttemptOutcome
    seconds: float


@dataclass(frozen=True, slots=True)
class PluginHealth:
    """A plugin's circuit, calls in progress, failures in a row with the last one's cause, and recent attempts, latest first."""

    circuit: Circuit
    calls: int
    failures: int
    cause: str
    recent: tuple[RecentAttempt, ...]

    @property
    def latency_seconds(self) -> float | None:
        """The mean time of the recent attempts that were answered."""
        times = [attempt.seconds for attempt in self.recent if attempt.outcome.mark == "up"]
        return fmean(times) if times else None


class Guard:
    """Admits or refuses attempts, and opens and closes circuits by their outcomes.

    `redis` should have short time-outs; with None nothing is guarded.
    """

    def __init__(
        self,
        redis: Redis | None,
        *,
        prefix: str,
        concurrency: int,
        failures: int,
        open_seconds: float,
        outage: Outage | None = None,
    ) -> None:
        self._redis = redis
        self._prefix = prefix
        self._concurrency = concurrency
        self._failures = failures
        self._open_ms = round(open_seconds * 1000)
        self._outage = outage or Outage()
        if redis is not None:
            self._enter = redis.register_script(_ENTER)
            self._leave = redis.register_script(_LEAVE)
            self._read = redis.register_script(_READ)

    @classmethod
    def configured(
        cls,
        settings: Settings,
        redis: Redis | None = None,
        concurrency: int | None = None,
        outage: Outage | None = None,
    ) -> Guard:
        """A guard with these settings, with another limit of concurrent calls if `concurrency` is given.

        Without `redis` it opens a connection of its own with short time-outs.
        """
        if redis is None and settings.redis_url:
            redis = connect(settings.redis_url, QUICK_SECONDS)
        return cls(
            redis,
            prefix=settings.redis_prefix,
            concurrency=concurrency or settings.plugin_concurrency,
            failures=settings.breaker_failures,
            open_seconds=settings.breaker_open_seconds,
            outage=outage,
        )

    @contextmanager
    def entered(self, key: str, seconds: float) -> Iterator[None]:
        """Guard one attempt of at most `seconds` to call the plugin `key`. Raises ConcurrencyLimit and CircuitOpen."""
        call = self._enter_call(key, seconds)
        started = time.monotonic()
        outcome, cause = AttemptOutcome.ABANDONED, ""
        try:
            yield
            outcome = AttemptOutcome.ANSWERED
        except AddressRefused:
            raise
        except BadAnswer:
            outcome = AttemptOutcome.BAD_ANSWER
            raise
        except JobRejected:
            outcome = AttemptOutcome.REJECTED
            raise
        except PluginUnavailable as failure:
            outcome, cause = AttemptOutcome.UNAVAILABLE, failure.cause
            raise
        finally:
            if call:
                self._leave_call(key, call, RecentAttempt(time.time(), outcome, time.monotonic() - started), cause)

    def health(self, key: str) -> PluginHealth | None:
        """The health of the plugin `key`; None while Redis is unavailable."""
        if self._redis is None or self._outage.present:
            return None
        try:
            found = self._read(keys=self._keys(key), args=[self._open_ms])
        except RedisError as error:
            self._pause_redis(error)
            return None
        circuit, calls, failures, cause, recent = found
        return PluginHealth(Circuit(_text(circuit)), calls, failures, _text(cause), tuple(map(_recent_attempt, recent)))

    def _enter_call(self, key: str, seconds: float) -> str | None:
        """The attempt's ID; None while Redis is unavailable."""
        if self._redis is None or self._outage.present:
            return None
        call = uuid.uuid4().hex
        span = round((seconds + MARGIN) * 1000)
        try:
            answer, wait, cause = self._enter(keys=self._keys(key), args=[call, self._concurrency, span, self._open_ms])
        except RedisError as error:
            self._pause_redis(error)
            return None
        match _text(answer):
            case "open":
                raise CircuitOpen(f"it is left alone for a while after: {_text(cause)}", retry_after=wait / 1000)
            case "full":
                raise ConcurrencyLimit(
                    f"{self._concurrency} calls of it are under way already", retry_after=LIMIT_RETRY
                )
        return call

    def _leave_call(self, key: str, call: str, attempt: RecentAttempt, cause: str) -> None:
        entry = json.dumps([attempt.at, attempt.outcome, attempt.seconds])
        added = [part for pair in duration_fields((key, attempt.outcome), attempt.seconds) for part in pair]
        try:
            change = self._leave(
                keys=[*self._keys(key), totals_key(self._prefix, Metric.PLUGIN_CALL_SECONDS)],
                args=[call, attempt.outcome.mark, self._failures, entry, cause, *added],
            )
        except RedisError as error:
            self._pause_redis(error)
            return
        if change:
            log.warning("plugin circuit changed", plugin=key, circuit=_text(change), cause=cause)

    def _keys(self, key: str) -> list[str]:
        stem = f"{self._prefix}plugin:{key}:"
        return [f"{stem}calls", f"{stem}circuit", f"{stem}recent"]

    def _pause_redis(self, error: RedisError) -> None:
        self._outage.begin("plugin calls are unguarded", error)


def _recent_attempt(entry: bytes | str) -> RecentAttempt:
    at, outcome, seconds = json.loads(entry)
    return RecentAttempt(at, AttemptOutcome(outcome), seconds)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def health(key: str) -> dict[str, Any] | None:
    """The circuit, the recent attempts and the latency of the plugin `key`, as JSON; None while Redis is unavailable."""
    found = _guard().health(key)
    return health_json(found) if found else None


def circuit(key: str) -> Circuit:
    """The circuit of the plugin `key`; closed while Redis is unavailable."""
    found = _guard().health(key)
    return found.circuit if found else Circuit.CLOSED


def health_json(found: PluginHealth) -> dict[str, Any]:
    """A plugin's health as JSON: durations in milliseconds, the latest attempt first."""
    latency = found.latency_seconds
    return {
        "circuit": found.circuit,
        "callsUnderWay": found.calls,
        "failuresInARow": found.failures,
        "cause": found.cause,
        "latencyMs": None if latency is None else round(latency * 1000),
        "recent": [
            {
                "at": rfc3339(datetime.fromtimestamp(attempt.at, UTC)),
                "outcome": attempt.outcome,
                "durationMs": round(attempt.seconds * 1000),
            }
            for attempt in found.recent
        ],
    }


@part
def _guard() -> Guard:
    return Guard.configured(settings(), quick_redis(), outage=outage())


# Lua scripts, which Redis runs one at a time. For each plugin Redis holds the calls in progress (a sorted set of their IDs by
# the time at which they count as lost), the circuit (a hash: `failures` in a row, `cause` of the last, when it was `opened`,
# and the `probe` that may pass although it is open, with `probe_until`), and the recent attempts (a list): KEYS 1, 2 and 3.
# KEYS 4 is the hash of all plugins' totals (`pipeline_core.metrics.totals`). Times are Redis's own, in milliseconds.
_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

_ENTER = (
    _NOW
    + """
local call, limit, span, open = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local circuit = redis.call('HMGET', KEYS[2], 'opened', 'probe_until', 'cause')
local opened, probed, cause = tonumber(circuit[1]), tonumber(circuit[2]), circuit[3] or ''
if opened then
  if now < opened + open then return {'open', opened + open - now, cause} end
  if probed and now < probed then return {'open', math.min(open, probed - now), cause} end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= limit then return {'full', 0, ''} end
if opened then redis.call('HSET', KEYS[2], 'probe', call, 'probe_until', now + span) end
redis.call('ZADD', KEYS[1], now + span, call)
if redis.call('PTTL', KEYS[1]) < span then redis.call('PEXPIRE', KEYS[1], span) end
return {'in', 0, ''}
"""
)
"""Before an attempt. Arguments: id, limit, longest time, open time. Returns `in`, `full` or `open`, the wait, the cause."""

_LEAVE = (
    _NOW
    + """
local call, mark, threshold, entry, cause = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
redis.call('ZREM', KEYS[1], call)
redis.call('LPUSH', KEYS[3], entry)
redis.call('LTRIM', KEYS[3], 0, 19)
redis.call('EXPIRE', KEYS[3], 86400)
for index = 6, #ARGV, 2 do redis.call('HINCRBY', KEYS[4], ARGV[index], ARGV[index + 1]) end
redis.call('EXPIRE', KEYS[4], 2592000)
local circuit = redis.call('HMGET', KEYS[2], 'opened', 'probe')
local opened, probing = circuit[1], circuit[2] == call
if mark == 'up' then
  redis.call('DEL', KEYS[2])
  return opened and 'closed' or ''
end
if probing then redis.call('HDEL', KEYS[2], 'probe', 'probe_until') end
if mark ~= 'down' then return '' end
local failures = redis.call('HINCRBY', KEYS[2], 'failures', 1)
redis.call('HSET', KEYS[2], 'cause', cause)
redis.call('EXPIRE', KEYS[2], 86400)
if probing or (not opened and failures >= threshold) then
  redis.call('HSET', KEYS[2], 'opened', now)
  return 'open'
end
return ''
"""
)
"""After an attempt. Arguments: id, mark (`up`, `down`, `unknown`), threshold, entry, cause, then pairs of a total's field and
what is added to it. Returns the new state of the circuit; empty when it did not change."""

_READ = (
    _NOW
    + """
local circuit = redis.call('HMGET', KEYS[2], 'opened', 'failures', 'cause')
local opened = tonumber(circuit[1])
local state = 'closed'
if opened then state = now < opened + tonumber(ARGV[1]) and 'open' or 'half-open' end
return {state, redis.call('ZCOUNT', KEYS[1], now, '+inf'), tonumber(circuit[2]) or 0, circuit[3] or '',
  redis.call('LRANGE', KEYS[3], 0, -1)}
"""
)
"""For display. Argument: open time. Returns the circuit, calls in progress, failures in a row, cause, recent entries."""
