"""Jobs counted over HTTP, with a million of them; against the bare SQL."""

from __future__ import annotations

from scripts.benchmarks.asking import Case, asking
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import standing
from scripts.benchmarks.stored import fill

NAME = "count_ms"
GOAL = 1.5
CASES = {
    "all": Case("count", {}, ("SELECT count(*) FROM jobs",)),
    "kind": Case("count", {"kind": "TFJob"}, ("SELECT count(*) FROM jobs WHERE kind = 'TFJob'",)),
    "state": Case("count", {"state": "succeeded"}, ("SELECT count(*) FROM jobs WHERE state = 'succeeded'",)),
}


def measure(scale: Scale) -> Result:
    """The row is the count of all; others stand beside it."""
    with standing() as stand:
        fill(stand, scale.stored)
        stand.start_service("api")
        with asking(stand) as asker:
            found = {name: asker.figures(case, scale.samples) for name, case in CASES.items()}
    return Result(
        name=NAME,
        value=found["all"]["p95"],
        unit="ms",
        baseline=found["all"]["bare_p95"],
        goal=f"ratio of each p95 at most {GOAL:g}",
        met=all(figures["ratio"] <= GOAL for figures in found.values()),
        samples=scale.samples,
        more={"jobs": scale.stored, "cases": found},
    )
