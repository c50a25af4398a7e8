"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Every measurement is taken in `rounds`, each of the service and then of the baseline.

    `jobs` go through the stages in a round, `seconds` of requests are sent in one; `samples` latencies are taken in all, and
    a flow has `tasks`. `watched_jobs` of ten replicas each are in the cluster that is watched. `slow_jobs` pass a gate of
    `slow_seconds`, or one of `very_slow_seconds`. What runs idle is looked at `idle_after` seconds, `idle_for` seconds long.
    One worker process after the other is added, up to the last of `worker_counts`.
    Where the size of the tables matters, `stored` jobs are there before, or `ended` ones. The runs of
    `due_runs` flows are due together.
    """

    rounds: int
    jobs: int
    seconds: float
    samples: int
    tasks: int
    watched_jobs: int
    slow_jobs: int
    slow_seconds: float
    very_slow_seconds: float
    idle_after: float
    idle_for: float
    stored: int
    ended: int
    due_runs: int
    worker_counts: tuple[int, ...]


FULL = Scale(
    rounds=5,
    jobs=400,
    seconds=4.0,
    samples=200,
    tasks=1000,
    watched_jobs=1000,
    slow_jobs=500,
    slow_seconds=2.0,
    very_slow_seconds=30.0,
    idle_after=3600.0,
    idle_for=300.0,
    stored=1_000_000,
    ended=20_000,
    due_runs=500,
    worker_counts=(1, 2, 4, 8),
)
QUICK = Scale(
    rounds=1,
    jobs=20,
    seconds=0.3,
    samples=5,
    tasks=20,
    watched_jobs=5,
    slow_jobs=8,
    slow_seconds=0.2,
    very_slow_seconds=0.2,
    idle_after=0.5,
    idle_for=2.0,
    stored=20_000,
    ended=500,
    due_runs=20,
    worker_counts=(1, 2),
)
