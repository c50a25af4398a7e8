"""Call a function for many jobs, skipping those that the cluster cannot serve at present."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

import structlog

from pipeline_core.clusters.base import ClusterUnavailable

log = structlog.get_logger(__name__)

MAX_FAILURES = 3
"""So many failures in a row mean that the whole cluster is unavailable."""


def for_each_job(job_ids: Collection[str], callback: Callable[[str], object]) -> int:
    """Call `callback` for each job, in random order. Returns the number of jobs.

    A job for which `callback` raises ClusterUnavailable is skipped, and left to the caller's next call. Raises
    ClusterUnavailable after MAX_FAILURES such jobs in a row, or when there are no others.
    """
    failures = 0
    for job_id in random.sample(list(job_ids), len(job_ids)):
        try:
            with structlog.contextvars.bound_contextvars(job_id=job_id):
                callback(job_id)
            failures = 0
        except ClusterUnavailable as error:
            failures += 1
            if failures == min(MAX_FAILURES, len(job_ids)):
                raise
            log.warning("job skipped: the cluster is unavailable", job_id=job_id, error=error.message)
    return len(job_ids)
