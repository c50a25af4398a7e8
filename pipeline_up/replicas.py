"""Replicas of the local cluster, which keep running when the service stops."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import chain, takewhile
from threading import Event

from pipeline_core.clusters.base import Cluster

STOP_SECONDS = 60.0
ASK_AGAIN_SECONDS = 0.2


def jobs_with_replicas(cluster: Cluster) -> dict[str, int]:
    """Jobs with replicas that have not ended, and how many."""
    stop = Event()
    counts = {job: _running(cluster, job) for job in set(chain.from_iterable(takewhile(bool, cluster.watch(stop))))}
    stop.set()
    return {job: count for job, count in counts.items() if count}


def stop_replicas(cluster: Cluster, jobs: Iterable[str]) -> bool:
    """Stop all replicas of the jobs, with their grace time; False when some still run after STOP_SECONDS."""
    left = set(jobs)
    deadline = time.monotonic() + STOP_SECONDS
    while left := {job for job in left if not cluster.delete(job)}:
        if time.monotonic() > deadline:
            return False
        time.sleep(ASK_AGAIN_SECONDS)
    return True


def _running(cluster: Cluster, job: str) -> int:
    observation = cluster.observe(job)
    return sum(not replica.state.ended for replica in observation.replicas) if observation else 0
