"""What a row answers: a figure, its baseline, and where both were measured."""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("celery", "flask", "gunicorn", "huey", "kombu", "psycopg2-binary", "redis", "sqlalchemy")
SYNCS = 50


class Unmeasurable(Exception):
    """This machine has not what a row needs; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """`value` and `baseline` are in `unit`, `ratio` is the one by the other; `met` says whether that meets `goal`.

    Without a `baseline` the goal is about the value itself, and there is no ratio.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    goal: str
    met: bool
    samples: int
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_rounds(
        cls, name: str, unit: str, rounds: Sequence[tuple[float, float]], *, goal: float, samples: int, **more: Any
    ) -> Result:
        """The median of rates, and of their baselines, of which each round has measured one after the other.

        The ratio is to be `goal` at least; `samples` are those of one round.
        """
        value, baseline = (statistics.median(rates) for rates in zip(*rounds, strict=True))
        return cls(
            name=name,
            value=value,
            unit=unit,
            baseline=baseline,
            goal=f"ratio at least {goal:g}",
            met=value / baseline >= goal,
            samples=samples * len(rounds),
            more={"rounds": rounds, **more},
        )

    def line(self) -> str:
        """The result as one line of JSON."""
        document = asdict(self)
        more = document.pop("more")
        ratio = self.value / self.baseline if self.baseline else None
        return json.dumps(_rounded({**document, "ratio": ratio, **more, "versions": versions(), "machine": machine()}))


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that `percent` of them are at most."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def spread(values: Sequence[float]) -> dict[str, float]:
    """The percentiles that are shown of a latency."""
    return {"p50": statistics.median(values), "p95": percentile(values, 95), "p99": percentile(values, 99)}


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}}


def machine() -> dict[str, Any]:
    """The processor, and how long the disk that the servers' directories are on takes to hold a page."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"cpu": model, "cores": os.cpu_count(), "load": os.getloadavg()[0], "sync_ms": _sync_milliseconds()}


def _sync_milliseconds() -> float:
    took = []
    # A file that has no name would not have to be kept.
    with tempfile.NamedTemporaryFile() as file:
        for number in range(SYNCS):
            started = time.perf_counter()
            os.pwrite(file.fileno(), bytes([number]) * 8192, 0)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - started)
    return statistics.median(took) * 1000


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
