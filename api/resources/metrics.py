"""Prometheus metrics, read from the database and from Redis at each scrape: every API process answers the same numbers,
and none is lost when a process ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from flask import Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from api.blueprint import Call
from api.resources.operations import blueprint
from pipeline_core.errors import Unavailable
from pipeline_core.metrics.totals import Histogram, totals
from pipeline_core.operations import gauges, status
from pipeline_core.operations.gauges import Kind
from pipeline_core.runtime import part
from workers import queues

CACHE_SECONDS = 5.0
"""Scrapes within this time get the same numbers."""

_FORMS = {Kind.GAUGE: GaugeMetricFamily, Kind.COUNTER: CounterMetricFamily, Kind.HISTOGRAM: HistogramMetricFamily}


class ServiceCollector(Collector):
    """All metrics of the service, and whether the database and Redis answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._families: list[Metric] = []

    def describe(self) -> Sequence[Metric]:
        """Empty, so that registering the collector does not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            if time.monotonic() - self._read_at > CACHE_SECONDS:
                self._families = list(map(family, read()))
                self._read_at = time.monotonic()
            yield from self._families


def read() -> Iterator[gauges.Family]:
    """The families that can be read now: those of the database only while it answers, and so for Redis."""
    started = time.monotonic()
    plugins: tuple[str, ...] = ()
    try:
        now = status.read(queues.lengths)
    except Unavailable:
        yield _up("database", False)
    else:
        yield _up("database", True)
        yield from gauges.of_status(now)
        plugins = now.plugins
    try:
        yield from list(gauges.of_totals(totals(), plugins))
        yield _up("redis", True)
    except RedisError:
        yield _up("redis", False)
    yield _single("pipeline_scrape_seconds", "How long it took to read all this.", time.monotonic() - started)


def family(of: gauges.Family) -> Metric:
    """A family as an object of prometheus_client."""
    made: Any = _FORMS[of.kind](of.name, of.help, labels=of.labels)
    for labels, value in of.samples.items():
        if isinstance(value, Histogram):
            made.add_metric(labels, value.cumulative(), value.seconds)
        else:
            made.add_metric(labels, value)
    metric: Metric = made
    return metric


def _up(what: str, answers: bool) -> gauges.Family:
    return _single(f"pipeline_{what}_up", f"1 when {what} answers.", float(answers))


def _single(name: str, about: str, value: float) -> gauges.Family:
    samples: gauges.Numbers = {(): value}
    return gauges.Family(name, about, (), samples)


@part
def _registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(ServiceCollector())
    return registry


@blueprint.operation("GET", "/metrics", needs=None, streams="text/plain")
def prometheus(call: Call) -> Response:
    """Prometheus metrics"""
    return Response(generate_latest(_registry()), content_type=CONTENT_TYPE_LATEST)
