"""What a watcher of 10,000 pods takes of memory, at the most; against one of a cluster that has none."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import Stand, standing
from scripts.benchmarks.watched import Watched, wait_recorded, watched

NAME = "watcher_memory_mb_10000_pods"
GOAL = 300.0
REPLICAS = 10
RATE = 2000.0


def measure(scale: Scale) -> Result:
    """Its largest resident size, when it has listed all pods and all have started."""
    with standing() as stand, tempfile.TemporaryDirectory(prefix="pipeline-bench-") as directory:
        with watched(stand, 0, REPLICAS) as empty:
            baseline = _largest(stand, empty, Path(directory))
        with watched(stand, scale.watched_jobs, REPLICAS) as cluster:
            value = _largest(stand, cluster, Path(directory))
    return Result(
        name=NAME,
        value=value,
        unit="MB",
        baseline=baseline,
        goal=f"at most {GOAL:g} MB",
        met=value <= GOAL,
        samples=1,
        more={"jobs": scale.watched_jobs, "pods": cluster.pods},
    )


def _largest(stand: Stand, cluster: Watched, directory: Path) -> float:
    with cluster.watcher(directory) as process:
        cluster.wait_watched()
        cluster.wave("Running", RATE)
        wait_recorded(stand, "Running", cluster.pods)
        status = Path(f"/proc/{process.pid}/status").read_text()
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(kilobytes) / 1024
