"""The same as `slow_plugins`, by a gate that takes as long as a plugin call may by default."""

from __future__ import annotations

from scripts.benchmarks import slow_plugins
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale

NAME = "slow_plugins_30_seconds"


def measure(scale: Scale) -> Result:
    return slow_plugins.measure_gate_of(scale.very_slow_seconds, NAME, scale)
