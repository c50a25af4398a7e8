"""From the submission to the launch, with 20,000 ended jobs stored; against the same with none."""

from __future__ import annotations

from scripts.benchmarks.launches import WARM_UP, launching
from scripts.benchmarks.results import Result, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import standing
from scripts.benchmarks.stored import fill

NAME = "launch_ms_20000_ended"
GOAL = 1.2


def measure(scale: Scale) -> Result:
    """Submit jobs one by one, each when the one before is in the cluster: with none stored, then with `scale.ended`."""
    bare, took = (_launches(scale.samples, stored) for stored in (0, scale.ended))
    value, baseline = spread(took), spread(bare)
    return Result(
        name=NAME,
        value=value["p50"],
        unit="ms",
        baseline=baseline["p50"],
        goal=f"ratio at most {GOAL:g}",
        met=value["p50"] / baseline["p50"] <= GOAL,
        samples=scale.samples,
        more={"latency_ms": value, "baseline_latency_ms": baseline},
    )


def _launches(samples: int, stored: int) -> list[float]:
    """How long each launch took, in ms, on a stand with so many jobs."""
    with standing() as stand:
        if stored:
            fill(stand, stored)
        stand.start_service()
        with launching(stand) as launch:
            return [launch() for _ in range(WARM_UP + samples)][WARM_UP:]
