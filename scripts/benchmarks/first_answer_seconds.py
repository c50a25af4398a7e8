"""From the command `pipeline up` until it answers: in a directory that is new, and in one that was used before."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import requests

from pipeline_up.listener import Listener
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import READY_SECONDS, wait_for

NAME = "first_answer_seconds"
GOAL = 5.0
COMMAND = Path(sys.executable).with_name("pipeline")


def measure(scale: Scale) -> Result:
    """Start it twice in each of some directories."""
    new, used = [], []
    for _ in range(scale.rounds):
        with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as directory:
            new.append(_first_answer(Path(directory)))
            used.append(_first_answer(Path(directory)))
    medians = {"new_directory": statistics.median(new), "used_directory": statistics.median(used)}
    value = max(medians.values())
    return Result(
        name=NAME,
        value=value,
        unit="s",
        goal=f"under {GOAL:g} s",
        met=value < GOAL,
        samples=scale.rounds,
        more=medians,
    )


def _first_answer(directory: Path) -> float:
    """How many seconds it takes until it can serve requests. It is stopped then."""
    with closing(Listener("127.0.0.1", 0)) as free:
        url, port = free.url, free.url.rpartition(":")[2]
    command = [str(COMMAND), "up", "--data-dir", str(directory / "data"), "--port", port]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
    started = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            return wait_for(lambda: _serves(url, process), "the first answer") - started
        finally:
            process.send_signal(signal.SIGINT)


def _serves(url: str, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"pipeline up has ended with exit code {process.returncode}")
    with suppress(requests.ConnectionError):
        return requests.get(f"{url}/readyz", timeout=READY_SECONDS).status_code == 200
    return False
