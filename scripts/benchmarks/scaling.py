"""Jobs with plugins of 50 ms, by more and more worker processes; against one, times their number."""

from __future__ import annotations

from pathlib import Path

from pipeline_core.stages.names import PLUGIN_TYPE
from scripts.benchmarks.drain import jobs_per_second
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import TRANSLATED, plugin_server, register, standing

NAME = "scaling"
GOAL = 0.9
GOAL_OF_ONE = 40.0
"""Jobs a second by one process."""
PLUGIN_MILLISECONDS = 50
CPU_IS_FULL = 0.9


def measure(scale: Scale) -> Result:
    """More and more workers, each of one process. Steps at which the machine has no CPU left do not count."""
    rates, busy, count = {}, {}, max(scale.jobs // 2, 2)
    with standing() as stand, plugin_server(stand, PLUGIN_MILLISECONDS) as url:
        register(*({"pluginType": type, "callAddress": f"{url}/{type}"} for type in PLUGIN_TYPE.values()))
        stand.start_service("housekeeping", "beat")
        running: list[str] = []
        for workers in scale.worker_counts:
            for number in range(len(running), workers):
                running.append(f"scaled{number}")
                stand.start(stand.plan.worker("stages", running[-1]))
            jobs_per_second(stand, workers * 2, TRANSLATED, running)
            before = _cpu_times()
            rates[workers] = jobs_per_second(stand, count * workers, TRANSLATED, running)
            busy[workers] = _busy(before, _cpu_times())
    alone = rates[scale.worker_counts[0]]
    kept = {workers: rate / (alone * workers) for workers, rate in rates.items()}
    counted = [workers for workers in rates if busy[workers] < CPU_IS_FULL or workers == scale.worker_counts[0]]
    last = counted[-1]
    return Result(
        name=NAME,
        value=rates[last],
        unit="jobs/s",
        baseline=alone * last,
        goal=f"ratio at least {GOAL:g} until the CPU is full, and {GOAL_OF_ONE:g} jobs/s by one process",
        met=alone >= GOAL_OF_ONE and all(kept[workers] >= GOAL for workers in counted),
        samples=count * sum(scale.worker_counts),
        more={
            "workers": last,
            "jobs_per_second": rates,
            "of_linear": kept,
            "cpu_busy": busy,
            "plugin_ms": PLUGIN_MILLISECONDS,
        },
    )


def _cpu_times() -> tuple[int, int]:
    """The machine's CPU time that was idle, and all of it, in ticks; see proc_stat(5)."""
    fields = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def _busy(before: tuple[int, int], after: tuple[int, int]) -> float:
    idle, total = (late - early for early, late in zip(before, after, strict=True))
    return 1 - idle / total if total else 0.0
