"""That the benchmarks run and answer in their form; what they measure is nothing to a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests import preloaded
from tests.console import browser
from tests.waiting import HANG_SECONDS

ROOT = Path(__file__).resolve().parents[2]
ROWS = {
    "jobs_per_second": {"huey", "worker_processes", "cpu_ms_per_job"},
    "submit_per_second": {"p99_ratio", "latency_ms", "baseline_latency_ms"},
    "launch_latency_ms": {"latency_ms", "baseline_latency_ms"},
    "launch_ms_20000_ended": {"latency_ms", "baseline_latency_ms"},
    "flow_task_overhead_ms": {"wide", "deep"},
    "watcher_changes_per_second": {"jobs", "pods", "seconds", "cpu_ms_per_change"},
    "watcher_memory_mb_10000_pods": {"jobs", "pods"},
    "schedule_minute_lag_seconds": {"p50", "p99", "rounds"},
    "plugin_jobs_per_second": {"worker_processes", "plugin_ms", "cpu_ms_per_job"},
    "slow_plugins": {"gate_seconds", "slots", "others_delay_ms", "others_ms", "others_alone_ms"},
    "slow_plugins_30_seconds": {"gate_seconds", "slots", "others_delay_ms", "others_ms", "others_alone_ms"},
    "shadows": {"shadows", "answers", "latency_ms", "baseline_latency_ms"},
    "recovery_seconds": {"gate_seconds", "jobs"},
    "list_ms": {"jobs", "cases"},
    "count_ms": {"jobs", "cases"},
    "hook_lag_ms": {"lag_ms", "events_per_second"},
    "deliveries_per_second": {"worker_threads", "subscriber_ms"},
    "scaling": {"of_linear", "cpu_busy"},
    "memory_mb": {"above_mb", "api", "worker"},
    "first_answer_seconds": {"new_directory", "used_directory"},
    "what_if_seconds": {"jobs", "submit_p95_ms", "submit_p95_ms_alone"},
    "console_lag_ms": {"lag_ms", "waiters", "changes_per_second"},
    "submit_per_second_50_waiters": {"waiters", "connections", "rounds"},
    "console_pages_ms": {"jobs", "cases", "paint_ms", "log_task_ms"},
    "idle": {"cpu_percent", "pss_mb", "after_seconds", "for_seconds"},
}
WITHOUT_BASELINE = {
    *("console_lag_ms", "console_pages_ms", "first_answer_seconds", "hook_lag_ms", "idle", "recovery_seconds"),
    "what_if_seconds",
}


BY_COMMAND = {"memory_mb", "idle"}
"""Rows that look at the memory of processes, which is that of others where they are forked."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_row_answers_with_one_line_of_json(name: str, tmp_path: Path) -> None:
    output, errors = tmp_path / "output", tmp_path / "errors"
    with output.open("wb") as answer, errors.open("wb") as log:
        code = run_by_command(name, answer, log) if name in BY_COMMAND else run_forked(name, output, log)
    assert code == 0, errors.read_text()
    if name == "console_pages_ms" and browser.MISSING:
        pytest.skip(errors.read_text())
    (line,) = output.read_text().splitlines()
    result = json.loads(line)
    assert result["name"] == name
    assert result["value"] > 0
    if name in WITHOUT_BASELINE:
        assert result["baseline"] is result["ratio"] is None
    else:
        assert result["baseline"] > 0
        assert result["ratio"] == pytest.approx(result["value"] / result["baseline"], rel=0.01)
    assert isinstance(result["met"], bool)
    assert {"unit", "goal", "samples", "versions", "machine"} | ROWS[name] <= result.keys()


def run_by_command(name: str, output: IO[bytes], log: IO[bytes]) -> int:
    """The exit code of the command for this row."""
    command = [sys.executable, "-m", "scripts.benchmarks", name, "--quick"]
    return subprocess.run(command, cwd=ROOT, stdout=output, stderr=log, timeout=HANG_SECONDS, check=False).returncode


def run_forked(name: str, output: Path, log: IO[bytes]) -> int:
    """The same, for what takes less CPU time; see `tests/bench/row.py`."""
    command = [sys.executable, "-m", "tests.bench.row", name, str(output)]
    row = preloaded.start(command, {**os.environ, "PYTHONUNBUFFERED": "1"}, log)
    try:
        return row.wait(HANG_SECONDS)
    finally:
        row.terminate()


def test_an_unknown_row_is_refused_with_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.benchmarks", "speed"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert all(name in done.stderr for name in ROWS)
