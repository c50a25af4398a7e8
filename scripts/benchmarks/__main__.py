"""The command: which rows to measure, and how thoroughly."""

from __future__ import annotations

import argparse
import subprocess
import sys

from scripts.benchmarks import (
    console_lag_ms,
    console_pages_ms,
    count_ms,
    deliveries_per_second,
    first_answer_seconds,
    flow_task_overhead_ms,
    hook_lag_ms,
    idle,
    jobs_per_second,
    launch_latency_ms,
    launch_ms_20000_ended,
    list_ms,
    memory_mb,
    plugin_jobs_per_second,
    recovery_seconds,
    scaling,
    schedule_minute_lag_seconds,
    shadows,
    slow_plugins,
    slow_plugins_30_seconds,
    submit_per_second,
    submit_per_second_50_waiters,
    watcher_changes_per_second,
    watcher_memory_mb_10000_pods,
    what_if_seconds,
)
from scripts.benchmarks.results import Unmeasurable
from scripts.benchmarks.scale import FULL, QUICK

ROWS = {
    row.NAME: row
    for row in (
        jobs_per_second,
        plugin_jobs_per_second,
        slow_plugins,
        slow_plugins_30_seconds,
        shadows,
        recovery_seconds,
        launch_latency_ms,
        launch_ms_20000_ended,
        submit_per_second,
        list_ms,
        count_ms,
        hook_lag_ms,
        deliveries_per_second,
        scaling,
        memory_mb,
        first_answer_seconds,
        flow_task_overhead_ms,
        schedule_minute_lag_seconds,
        watcher_changes_per_second,
        watcher_memory_mb_10000_pods,
        what_if_seconds,
        console_lag_ms,
        submit_per_second_50_waiters,
        console_pages_ms,
        idle,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all of {', '.join(ROWS)} if none is given")
    parser.add_argument("--quick", action="store_true", help="so few samples that only the shape of the answer counts")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in ROWS]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(ROWS)}")
    names = arguments.names or list(ROWS)
    if len(names) == 1:
        try:
            print(ROWS[names[0]].measure(QUICK if arguments.quick else FULL).line(), flush=True)
        except Unmeasurable as reason:
            print(f"{names[0]} is left out: {reason}", file=sys.stderr)
        return
    # Each in a process of its own: connections and settings are a process's.
    quick = ["--quick"] if arguments.quick else []
    statuses = [
        subprocess.run([sys.executable, "-m", "scripts.benchmarks", name, *quick], check=False).returncode
        for name in names
    ]
    sys.exit(max(map(abs, statuses)))


if __name__ == "__main__":
    main()
