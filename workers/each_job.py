"""Do the same for many jobs, some of which cannot be reached in the cluster at present."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

import structlog

from pipeline_core.clusters.base import ClusterUnavailable

log = structlog.get_logger(__name__)

MISSES = 3
"""So many failures in a row mean that the whole cluster is away."""


def for_each_job(job_ids: Collection[str], act: Callable[[str], object]) -> int:
    """Call `act` for each job, in random order, and return how many jobs there are.

    A job for which `act` raises ClusterUnavailable is skipped, and left to the next call. After MISSES such jobs in a row, or
    when there are no others, ClusterUnavailable is raised.
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
            log.warning("job skipped: its cluster is away", job_id=job_id, error=error.message)
    return len(job_ids)
