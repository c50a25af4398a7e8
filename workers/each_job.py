"""Doing the same for many jobs, of which some may not be had at present."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

import structlog

from pipeline_core.clusters.base import ClusterUnavailable

log = structlog.get_logger(__name__)

MISSES = 3
"""After so many jobs in a row it is the cluster that is away."""


def take_turns(job_ids: Collection[str], act: Callable[[str], object]) -> int:
    """Act on each job; how many they are. One whose part of the cluster is away does not keep the others from their turn:
    whoever calls this comes back to it. They come in no order, so that nobody is always behind the same ones.

    Raises ClusterUnavailable when all of it is.
    """
    missed = 0
    for job_id in random.sample(list(job_ids), len(job_ids)):
        try:
            with structlog.contextvars.bound_contextvars(job_id=job_id):
                act(job_id)
            missed = 0
        except ClusterUnavailable as error:
            missed += 1
            if missed == min(MISSES, len(job_ids)):
                raise
            log.warning("job left for later", job_id=job_id, error=error.message)
    return len(job_ids)
