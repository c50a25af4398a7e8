"""Counters and histograms over all processes: how often something happened, and how long it took.

They are stored in Redis, one hash for each metric, because processes come and go and share no disk. They are not durable:
when Redis is emptied they restart from zero, like the counters of a restarted process. While Redis is unavailable nothing is
counted. A process gathers what it counts, and sends it every second.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate

from redis import Redis
from redis.exceptions import RedisError

from pipeline_core.common.redis import Outage, outage, quick_redis
from pipeline_core.runtime import part
from pipeline_core.settings import settings

Labels = tuple[str, ...]


class Metric(StrEnum):
    """The metrics and their labels."""

    PLUGIN_CALL_SECONDS = "plugin_call_seconds"
    """Requests to plugins: the plugin's key, the outcome."""
    SHADOW_CALL_SECONDS = "shadow_call_seconds"
    """Requests to shadows: the plugin's key, the outcome."""
    SHADOWS_DROPPED = "shadows_dropped"
    """Questions that a shadow was not asked, because too many waited or it was unavailable: the plugin's key."""
    STAGE_SECONDS = "stage_seconds"
    """Stages, from the claim to the commit: the stage, the outcome."""
    TICK_SECONDS = "tick_seconds"
    """Beat's ticks: the task's name."""
    TICK_ACTIONS = "tick_actions"
    """What ticks found to do: the task's name."""
    DELIVERY_ATTEMPTS = "delivery_attempts"
    """Attempts of deliveries: the delivery's status after the attempt."""
    CLUSTER_ERRORS = "cluster_errors"
    """Requests that the cluster did not serve: the HTTP status, or `unreachable`."""
    WATCH_LISTS = "watch_lists"
    """How often the watch has listed all pods: the namespace."""


BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds, in seconds, of the buckets that durations fall into; the last bucket has none."""


KEPT_SECONDS = 30 * 86400
"""After so long without a change a metric is deleted."""

SEND_SECONDS = 1.0
"""How often a process sends what it has counted."""

_SUM = "us"


@dataclass(slots=True)
class Histogram:
    """`counts` by bucket, not cumulative, one more than `BOUNDS`; `seconds` is the sum of all durations."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def cumulative(self) -> list[tuple[str, float]]:
        """Upper bounds (`le` of Prometheus), each with how many durations are at most that long."""
        bounds = [f"{bound:g}" for bound in BOUNDS] + ["+Inf"]
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


def count_field(labels: Labels) -> str:
    """The hash's field that counts these labels."""
    return json.dumps([*labels], separators=(",", ":"))


def duration_fields(labels: Labels, seconds: float) -> tuple[tuple[str, int], tuple[str, int]]:
    """The fields that one duration changes, with the increments: 1 for its bucket, its microseconds for the sum."""
    bucket = json.dumps([*labels, bisect_left(BOUNDS, seconds)], separators=(",", ":"))
    return (bucket, 1), (json.dumps([*labels, _SUM], separators=(",", ":")), round(seconds * 1e6))


def read_histograms(stored: Mapping[str, str]) -> dict[Labels, Histogram]:
    """The histograms in a hash with the fields of `duration_fields`."""
    histograms: dict[Labels, Histogram] = defaultdict(Histogram)
    for name, value in stored.items():
        *labels, part = json.loads(name)
        histogram = histograms[tuple(labels)]
        if part == _SUM:
            histogram.seconds = int(value) / 1e6
        else:
            histogram.counts[part] = int(value)
    return dict(histograms)


def read_counts(stored: Mapping[str, str]) -> dict[Labels, int]:
    """The counts in a hash with the fields of `count_field`."""
    return {tuple(json.loads(name)): int(value) for name, value in stored.items()}


class Totals:
    """Counts in `redis`, which should have short time-outs; with None, and during an outage, nothing is counted.

    What is counted is gathered, and sent every SEND_SECONDS by a thread, which starts with the first of it.
    """

    def __init__(self, redis: Redis | None, *, prefix: str, outage: Outage | None = None) -> None:
        self._redis = redis
        self._prefix = prefix
        self._outage = outage or Outage()
        self._gathered: Counter[tuple[Metric, str]] = Counter()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def observe(self, metric: Metric, labels: Labels, seconds: float) -> None:
        """Add a duration to a histogram."""
        self._add(metric, *duration_fields(labels, seconds))

    def count(self, metric: Metric, labels: Labels, by: int = 1) -> None:
        """Increment a counter."""
        if by:
            self._add(metric, (count_field(labels), by))

    def histograms(self, metric: Metric) -> dict[Labels, Histogram]:
        """All durations of a metric, by labels. Raises RedisError."""
        return read_histograms(self._stored(metric))

    def counts(self, metric: Metric) -> dict[Labels, int]:
        """All counts of a metric, by labels. Raises RedisError."""
        return read_counts(self._stored(metric))

    def send(self) -> None:
        """Send what has been gathered."""
        with self._lock:
            gathered, self._gathered = self._gathered, Counter()
        if not gathered or self._redis is None or self._outage.present:
            return
        try:
            pipe = self._redis.pipeline(transaction=False)
            for (metric, name), by in gathered.items():
                pipe.hincrby(key(self._prefix, metric), name, by)
            for metric in {metric for metric, _ in gathered}:
                pipe.expire(key(self._prefix, metric), KEPT_SECONDS)
            pipe.execute()
        except RedisError as error:
            self._outage.begin("nothing is counted", error)

    def close(self) -> None:
        """Send what has been gathered, and end the thread."""
        self._closed.set()
        self.send()

    def _stored(self, metric: Metric) -> Mapping[str, str]:
        if self._redis is None:
            return {}
        self.send()
        return {str(name): str(value) for name, value in self._redis.hgetall(key(self._prefix, metric)).items()}

    def _add(self, metric: Metric, *additions: tuple[str, int]) -> None:
        if self._redis is None or self._outage.present:
            return
        with self._lock:
            for name, by in additions:
                self._gathered[metric, name] += by
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="totals", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(SEND_SECONDS):
            self.send()


def key(prefix: str, metric: Metric) -> str:
    """The Redis key of a metric's hash."""
    return f"{prefix}totals:{metric}"


@part(close=Totals.close)
def totals() -> Totals:
    """This process's totals, in the service's Redis."""
    return Totals(quick_redis(), prefix=settings().redis_prefix, outage=outage())
