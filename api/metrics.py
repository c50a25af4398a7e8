"""Prometheus metrics of what is recorded, read from the database when they are asked for: so they are the same whichever
process answers, and none of them is lost with a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pipeline_core import gauges
from pipeline_core.errors import Unavailable

FRESH_SECONDS = 5.0
"""For so long after a reading, several that scrape get the same."""


class Recorded(Collector):
    """The recorded gauges, and `pipeline_database_up`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._families: list[GaugeMetricFamily] = []

    def describe(self) -> Sequence[GaugeMetricFamily]:
        """Nothing beforehand: registering must not ask the database."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._lock:
            if time.monotonic() - self._read_at > FRESH_SECONDS:
                self._families = _read()
                self._read_at = time.monotonic()
            yield from self._families


def _read() -> list[GaugeMetricFamily]:
    up = GaugeMetricFamily("pipeline_database_up", "1 when the database answers.")
    try:
        readings = gauges.read()
    except Unavailable:
        up.add_metric((), 0)
        return [up]
    up.add_metric((), 1)
    return [up, *map(_family, readings)]


def _family(gauge: gauges.Gauge) -> GaugeMetricFamily:
    family = GaugeMetricFamily(gauge.name, gauge.help, labels=gauge.labels)
    for values, number in gauge.samples.items():
        family.add_metric(values, number)
    return family
