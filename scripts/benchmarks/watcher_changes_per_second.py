"""Changes of pods' statuses that the watcher takes in and rolls up; against a loop that writes each down for itself.

All pods of all jobs start, and then all succeed, in no order: each change may be of another job than the one before.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path

import psycopg2

from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import Stand, standing, wait_for
from scripts.benchmarks.watched import Watched, cpu_seconds, wait_recorded, watched

NAME = "watcher_changes_per_second"
GOAL = 2000.0
OFFERED = 10 * GOAL
REPLICAS = 10


def measure(scale: Scale) -> Result:
    """Offer more changes than anybody can take."""
    with standing() as stand, tempfile.TemporaryDirectory(prefix="pipeline-bench-") as directory:
        with watched(stand, scale.watched_jobs, REPLICAS) as cluster, cluster.watcher(Path(directory)) as watcher:
            cluster.wait_watched()
            changes, before = 2 * cluster.pods, cpu_seconds(watcher)
            seconds = [_wave(stand, cluster, phase) for phase in ("Running", "Succeeded")]
            _check(stand, scale.watched_jobs)
            cpu = cpu_seconds(watcher) - before
        _forget(stand)
        with watched(stand, max(1, scale.watched_jobs // 4), REPLICAS) as cluster, cluster.bare_watcher():
            cluster.wait_watched()
            baseline = cluster.pods / _wave(stand, cluster, "Running")
    value = changes / sum(seconds)
    return Result(
        name=NAME,
        value=value,
        unit="changes/s",
        baseline=baseline,
        goal=f"at least {GOAL:g} changes/s",
        met=value >= GOAL,
        samples=changes,
        more={
            "jobs": scale.watched_jobs,
            "pods": scale.watched_jobs * REPLICAS,
            "seconds": seconds,
            "cpu_ms_per_change": cpu / changes * 1000,
        },
    )


def _wave(stand: Stand, cluster: Watched, phase: str) -> float:
    began = time.perf_counter()
    cluster.wave(phase, OFFERED)
    return wait_recorded(stand, phase, cluster.pods) - began


def _check(stand: Stand, jobs: int) -> None:
    with closing(psycopg2.connect(stand.database_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True

        def succeeded() -> bool:
            cursor.execute("SELECT count(*) FROM jobs WHERE state = 'succeeded'")
            return cursor.fetchone() == (jobs,)

        wait_for(succeeded, "the jobs to have succeeded")


def _forget(stand: Stand) -> None:
    with closing(psycopg2.connect(stand.database_url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobs")
