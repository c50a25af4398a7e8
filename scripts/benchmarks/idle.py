"""What everything under `pipeline up` takes when there is nothing to do: CPU and memory."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator

import psutil

from scripts.benchmarks.cpu import seconds_of
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import standing

NAME = "idle"
GOAL_PERCENT = 2.0
GOAL_MEGABYTES = 500.0
POSTGRES, VALKEY, SERVICE = "postgres", "valkey", "service"


def measure(scale: Scale) -> Result:
    """Start everything, wait until it has settled, and then see what it takes for a while."""
    with standing(split=False) as stand:
        stand.start_service()
        time.sleep(scale.idle_after)
        before, started = _cpu_seconds(), time.perf_counter()
        time.sleep(scale.idle_for)
        after, seconds = _cpu_seconds(), time.perf_counter() - started
        memory: dict[str, float] = {}
        processes = 0
        for kind, process in _processes():
            memory[kind] = memory.get(kind, 0.0) + process.memory_full_info().pss / 1e6
            processes += kind != POSTGRES
    percent = {kind: 100 * (cpu - before[kind]) / seconds for kind, cpu in after.items()}
    value = sum(percent.values())
    held = sum(megabytes for kind, megabytes in memory.items() if kind != POSTGRES)
    return Result(
        name=NAME,
        value=value,
        unit="% of a core",
        goal=f"under {GOAL_PERCENT:g} %, and under {GOAL_MEGABYTES:g} MB without PostgreSQL's processes",
        met=value < GOAL_PERCENT and held < GOAL_MEGABYTES,
        samples=1,
        more={
            "cpu_percent": percent,
            "pss_mb": {**memory, "without_postgres": held},
            "processes_without_postgres": processes,
            "after_seconds": scale.idle_after,
            "for_seconds": scale.idle_for,
        },
    )


def _cpu_seconds() -> dict[str, float]:
    """The CPU time of all processes by what they belong to. What one that ends has used stays with its parent, as with the
    connections of PostgreSQL, which are closed after half an hour."""
    found: defaultdict[str, float] = defaultdict(float)
    for kind, process in _processes():
        found[kind] += seconds_of(process)
    return found


def _processes() -> Iterator[tuple[str, psutil.Process]]:
    """All processes of the stand, each with what it belongs to."""
    for process in psutil.Process().children(recursive=True):
        name = process.name()
        yield (
            POSTGRES if name.startswith("postgres") else VALKEY if name.startswith(("valkey", "redis")) else SERVICE,
            process,
        )
