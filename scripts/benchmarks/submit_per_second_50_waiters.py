"""Submissions over HTTP while readers wait for the feed, and are given each of them; against the same without."""

from __future__ import annotations

from scripts.benchmarks.console_lag_ms import WAITERS
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import a_token, standing
from scripts.benchmarks.submit_per_second import CONNECTIONS, submit_over_http
from scripts.benchmarks.waiters import waiting

NAME = "submit_per_second_50_waiters"
GOAL = 0.9


def measure(scale: Scale) -> Result:
    """With and without, in turn. No worker runs."""
    with standing() as stand:
        stand.start_service("api")
        token, url = a_token(), f"{stand.url}/v1/job"

        def rate() -> float:
            return submit_over_http(url, token, scale.seconds)[0]

        def beside() -> float:
            with waiting(stand.url, token, WAITERS):
                return rate()

        rate()
        rounds = [(beside(), rate()) for _ in range(scale.rounds)]
    samples = int(scale.seconds * min(map(min, rounds)))
    return Result.of_rounds(
        NAME, "requests/s", rounds, goal=GOAL, samples=samples, waiters=WAITERS, connections=CONNECTIONS
    )
