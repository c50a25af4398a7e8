"""From the submission to the launch on a system that does nothing else; against the round trip of a bare Celery task."""

from __future__ import annotations

import time

from scripts.benchmarks.launches import PAUSE_SECONDS, WARM_UP, launching
from scripts.benchmarks.results import Result, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import standing

NAME = "launch_latency_ms"
GOAL = 2.0


def measure(scale: Scale) -> Result:
    """Submit a job and wait until it is in the cluster, run a task and wait for its result, and so on."""
    with standing() as stand:
        # Its broker is the stand's.
        from scripts.benchmarks.baselines.bare_celery import answer

        stand.start_service()
        stand.start(stand.bare_worker())
        with launching(stand) as launch:
            took, bare = [], []
            for _ in range(WARM_UP + scale.samples):
                took.append(launch())
                started = time.perf_counter()
                answer.delay().get()
                bare.append((time.perf_counter() - started) * 1000)
                time.sleep(PAUSE_SECONDS)
    value, baseline = (spread(values[WARM_UP:]) for values in (took, bare))
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
