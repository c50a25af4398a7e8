"""The guard of plugin calls: a limit of calls at a time per plugin, and a circuit breaker, so that a slow or failing plugin
does not hold the workers.

Both are shared by all workers through Redis, but while all is well a call costs no round trip to it. A process holds a few slots
of a plugin's bulkhead, and lets its calls use them one after the other; what it has not used for REPORT_SECONDS it gives back. It
learns the circuit's state when it reports outcomes: together, every REPORT_SECONDS, but each failure at once. So a circuit that
another process has opened is known after that time. While Redis is unavailable, calls are made unguarded.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from pipeline_core.plugins import guard_scripts
from pipeline_core.plugins.errors import (
    AddressRefused,
    BadAnswer,
    CircuitOpen,
    ConcurrencyLimit,
    JobRejected,
    PluginUnavailable,
)
from pipeline_core.plugins.types import Mode
from pipeline_core.runtime import part
from pipeline_core.settings import Settings, settings

log = structlog.get_logger(__name__)

MARGIN = 10.0
"""Seconds after a probe's time-out until another may probe: the worker that made it must have died."""
LEASE_SECONDS = 10.0
"""How long a process's slots are kept for it after it last reported."""
REPORT_SECONDS = {Mode.ACTIVE: 0.25, Mode.SHADOW: 1.0}
"""How often a process reports outcomes, renews slots, and gives back those that it has not used, by the mode of the plugin."""
KNOWN_SECONDS = {Mode.ACTIVE: 1.0, Mode.SHADOW: 4.0}
"""How long a closed circuit counts as closed without asking."""
SPARE_PART = 8
"""With its calls a process takes one slot more for each so many of the limit."""
LIMIT_RETRY = 1.0
"""Seconds until the next attempt after the limit was reached."""

CALL_METRICS = {Mode.ACTIVE: Metric.PLUGIN_CALL_SECONDS, Mode.SHADOW: Metric.SHADOW_CALL_SECONDS}
"""What counts the requests, by the mode of the plugin."""
_ROOMS = {Mode.ACTIVE: "plugin", Mode.SHADOW: "shadow"}
"""What begins the names of its keys in Redis."""


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


@dataclass(frozen=True, slots=True)
class _Ended:
    """An attempt that ended and is to be reported."""

    attempt: RecentAttempt
    cause: str

    def arguments(self, now: float) -> tuple[str, str, int, str]:
        """Its mark, its cause, how many milliseconds ago it ended, and its entry in the list of recent attempts."""
        entry = json.dumps([self.attempt.at, self.attempt.outcome, self.attempt.seconds])
        return self.attempt.outcome.mark, self.cause, max(round((now - self.attempt.at) * 1000), 0), entry


@dataclass(slots=True)
class _Share:
    """What this process knows and holds of one plugin. `lock` is held during its round trips.

    `slots` are kept until `lease_end`, `calls` use them now, and `peak` is how many did at most since the last report. The
    circuit counts as closed until `closed_until`, with so many `failures` in a row.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    slots: int = 0
    lease_end: float = 0.0
    calls: int = 0
    peak: int = 0
    closed_until: float = float("-inf")
    failures: int = 0
    ended: list[_Ended] = field(default_factory=list)

    def admits(self, now: float) -> bool:
        """Whether one more call needs no round trip."""
        return self.calls < self.slots and now < self.lease_end and now < self.closed_until

    def needs_report(self, now: float) -> bool:
        """Whether there is something to report, slots to give back, or a lease to renew."""
        return (
            bool(self.ended) or self.peak < self.slots or (self.slots > 0 and now > self.lease_end - LEASE_SECONDS / 2)
        )


class Guard:
    """Admits or refuses attempts, and opens and closes circuits by their outcomes. Thread-safe.

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
        mode: Mode = Mode.ACTIVE,
    ) -> None:
        self._redis = redis
        self._room, self._metric = _ROOMS[mode], CALL_METRICS[mode]
        self._report_seconds, self._known_seconds = REPORT_SECONDS[mode], KNOWN_SECONDS[mode]
        self._prefix = prefix
        self._concurrency = concurrency
        self._failures = failures
        self._open_ms = round(open_seconds * 1000)
        self._outage = outage or Outage()
        self._process = uuid.uuid4().hex
        self._shares: defaultdict[str, _Share] = defaultdict(_Share)
        self._reporting: threading.Thread | None = None
        self._used = threading.Event()
        self._closed = threading.Event()
        if redis is not None:
            self._take = redis.register_script(guard_scripts.TAKE)
            self._write = redis.register_script(guard_scripts.REPORT)
            self._read = redis.register_script(guard_scripts.READ)

    @classmethod
    def configured(
        cls,
        settings: Settings,
        redis: Redis | None = None,
        concurrency: int | None = None,
        outage: Outage | None = None,
        mode: Mode = Mode.ACTIVE,
    ) -> Guard:
        """A guard with these settings, with another limit of concurrent calls if `concurrency` is given. What one for calls of
        shadows (`mode`) counts and limits is apart from all others.

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
            mode=mode,
        )

    @contextmanager
    def entered(self, key: str, seconds: float) -> Iterator[None]:
        """Guard one attempt of at most `seconds` to call the plugin `key`. Raises ConcurrencyLimit and CircuitOpen."""
        probe = self._enter_call(key, seconds)
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
            if probe is not None:
                attempt = RecentAttempt(time.time(), outcome, time.monotonic() - started)
                self._leave_call(key, probe, _Ended(attempt, cause))

    def health(self, key: str) -> PluginHealth | None:
        """The health of the plugin `key`, after what this process has to report of it; None while Redis is unavailable."""
        if self._redis is None or self._outage.present:
            return None
        share = self._shares.get(key)
        if share:
            with share.lock:
                self._report(key, share, share.slots)
        try:
            found = self._read(keys=self._keys(key)[:3], args=[self._open_ms])
        except RedisError as error:
            self._pause_redis(error)
            return None
        circuit, calls, failures, cause, recent = found
        return PluginHealth(Circuit(_text(circuit)), calls, failures, _text(cause), tuple(map(_recent_attempt, recent)))

    def close(self) -> None:
        """Report what is to be reported, and give all slots back that are not in use."""
        self._closed.set()
        self._used.set()
        for key, share in list(self._shares.items()):
            with share.lock:
                self._report(key, share, share.calls)

    def _enter_call(self, key: str, seconds: float) -> str | None:
        """Admit a call: the ID of a probe, or "" for another call; None while Redis is unavailable.

        Raises ConcurrencyLimit and CircuitOpen.
        """
        if self._redis is None or self._outage.present:
            return None
        share = self._share(key)
        with share.lock:
            if self._outage.present:
                return None
            probe = "" if share.admits(time.monotonic()) else self._take_slots(key, share, seconds)
            if probe is not None:
                share.calls += 1
                share.peak = max(share.peak, share.calls)
        self._start_reporting()
        return probe

    def _take_slots(self, key: str, share: _Share, seconds: float) -> str | None:
        """Make sure that this process holds a slot for one more call. Returns what `_enter_call` does."""
        probe, calls, moment = uuid.uuid4().hex, share.calls + 1, time.monotonic()
        wanted = max(share.slots, calls + self._concurrency // SPARE_PART)
        span = round((seconds + MARGIN) * 1000)
        lease = round(LEASE_SECONDS * 1000)
        arguments: list[str | int] = [self._process, calls, wanted, self._concurrency]
        arguments += [lease, probe, span, self._open_ms]
        try:
            answer, number, cause, slots = self._take(keys=self._keys(key)[:3], args=arguments)
        except RedisError as error:
            self._pause_redis(error)
            return None
        match _text(answer):
            case "open":
                raise CircuitOpen(f"it is left alone for a while after: {_text(cause)}", retry_after=number / 1000)
            case "full":
                raise ConcurrencyLimit(
                    f"{self._concurrency} calls of it are under way already", retry_after=LIMIT_RETRY
                )
            case "probe":
                share.slots, share.lease_end = slots, moment + LEASE_SECONDS
                return probe
        share.slots, share.lease_end = slots, moment + LEASE_SECONDS
        share.closed_until, share.failures = moment + self._known_seconds, number
        return ""

    def _leave_call(self, key: str, probe: str, ended: _Ended) -> None:
        share = self._share(key)
        with share.lock:
            share.calls -= 1
            share.ended.append(ended)
            mark = ended.attempt.outcome.mark
            if probe or mark == "down" or (mark == "up" and share.failures):
                self._report(key, share, share.slots, probe)
        self._used.set()

    def _report(self, key: str, share: _Share, slots: int, probe: str = "") -> None:
        """Report what has ended, keep so many slots, and learn the circuit's state. Call this with the share's lock."""
        ended, share.ended = share.ended, []
        if self._redis is None or self._outage.present:
            return
        added: Counter[str] = Counter()
        for each in ended:
            for name, by in duration_fields((key, each.attempt.outcome), each.attempt.seconds):
                added[name] += by
        moment = time.monotonic()
        lease = round(LEASE_SECONDS * 1000)
        arguments: list[str | int] = [self._process, slots, share.calls, lease, probe, self._failures, len(ended)]
        arguments += [argument for each in ended for argument in each.arguments(time.time())]
        arguments += [argument for pair in added.items() for argument in pair]
        try:
            change, opened, failures = self._write(keys=self._keys(key), args=arguments)
        except RedisError as error:
            self._pause_redis(error)
            return
        share.slots, share.peak, share.lease_end = slots, share.calls, moment + LEASE_SECONDS
        share.closed_until = float("-inf") if opened else moment + self._known_seconds
        share.failures = failures
        if change:
            cause = next((each.cause for each in reversed(ended) if each.cause), "")
            log.warning("plugin circuit changed", plugin=key, circuit=_text(change), cause=cause)

    def _share(self, key: str) -> _Share:
        share = self._shares.get(key)
        return share if share is not None else self._shares.setdefault(key, _Share())

    def _start_reporting(self) -> None:
        self._used.set()
        if self._reporting is None and not self._closed.is_set():
            self._reporting = threading.Thread(target=self._keep_reporting, name="plugin-guard", daemon=True)
            self._reporting.start()

    def _keep_reporting(self) -> None:
        while not self._closed.wait(self._report_seconds):
            self._used.wait()
            self._used.clear()
            if self._report_all():
                self._used.set()

    def _report_all(self) -> bool:
        """Report what there is to report of all plugins. Returns whether this process holds slots."""
        held = False
        for key, share in list(self._shares.items()):
            with share.lock:
                if share.needs_report(time.monotonic()):
                    self._report(key, share, max(share.peak, share.calls))
                held = held or share.slots > 0
        return held

    def _keys(self, key: str) -> list[str]:
        stem = f"{self._prefix}{self._room}:{key}:"
        return [f"{stem}slots", f"{stem}circuit", f"{stem}recent", totals_key(self._prefix, self._metric)]

    def _pause_redis(self, error: RedisError) -> None:
        self._outage.begin("plugin calls are unguarded", error)


def _recent_attempt(entry: bytes | str) -> RecentAttempt:
    at, outcome, seconds = json.loads(entry)
    return RecentAttempt(at, AttemptOutcome(outcome), seconds)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def health(key: str, mode: Mode = Mode.ACTIVE) -> dict[str, Any] | None:
    """The circuit, the recent attempts and the latency of the plugin `key`, as JSON; None while Redis is unavailable. `mode`
    says which calls of it: those for jobs, or those as a shadow."""
    found = (_guard() if mode is Mode.ACTIVE else _shadow_guard()).health(key)
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


@part
def _shadow_guard() -> Guard:
    return Guard.configured(settings(), quick_redis(), outage=outage(), mode=Mode.SHADOW)
