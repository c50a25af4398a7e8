"""Results: outputs and metrics of a job's replicas, collected from the cluster once they have ended, and stored with the job."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.clusters.base import ReplicaResult
from pipeline_core.clusters.factory import cluster
from pipeline_core.common.clock import now
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Job, JobResult, table
from pipeline_core.taskset.results import MAX_METRICS, METRICS_FILE, InvalidResult, read_metrics, read_output

Results = tuple[JobResult, ...]

MAX_JOB_METRICS = 32 * MAX_METRICS
"""Limit of the metrics of all replicas of a job together, in bytes."""


def get(job_id: str) -> Results:
    """The results of an ended job's replicas that left any: the stored ones, or else collected from the cluster.

    Harmless at any time, for any job. Raises ClusterUnavailable, Unavailable.
    """
    # A cleanup may have collected them and cleared the cluster between the first query and the collection.
    return _stored(job_id) or collect(job_id) or _stored(job_id)


def collect_all(job_ids: Iterable[str], until: float) -> frozenset[str]:
    """Collect the results of several ended jobs: of the first, and of others until the clock (`time.monotonic`) reaches `until`.
    Returns the jobs whose results were collected: they are stored now, unless there are none.

    Raises ClusterUnavailable, Unavailable.
    """
    collected: set[str] = set()
    for job_id in job_ids:
        if collected and time.monotonic() >= until:
            break
        collect(job_id)
        collected.add(job_id)
    return frozenset(collected)


def _stored(job_id: str) -> Results:
    with transaction() as session:
        return read(session, [job_id]).get(job_id, ())


@again_if_contended
def collect(job_id: str) -> Results:
    """Collect an ended job's results from the cluster and store them; results that are stored already are not replaced.

    Does not touch the database when there are none. Raises ClusterUnavailable, Unavailable.
    """
    rows = [row(job_id, result) for result in _within_bounds(cluster().results(job_id))]
    if not rows:
        return ()
    with transaction() as session:
        # The job may have been deleted meanwhile, and its results with it.
        job = session.scalar(select(Job.id).where(Job.id == job_id).with_for_update(read=True, key_share=True))
        if job is None:
            return ()
        session.execute(insert(table(JobResult)).on_conflict_do_nothing(), rows)
        return read(session, [job_id])[job_id]


def read(session: Session, job_ids: Collection[str]) -> Mapping[str, Results]:
    """The stored results of each of these jobs, ordered by role and index; jobs without results are left out."""
    found: dict[str, list[JobResult]] = defaultdict(list)
    query = select(JobResult).where(JobResult.job_id.in_(job_ids))
    for result in session.scalars(query.order_by(JobResult.job_id, JobResult.role, JobResult.index)):
        found[result.job_id].append(result)
    return {job_id: tuple(results) for job_id, results in found.items()}


def _within_bounds(found: Iterable[ReplicaResult]) -> Iterator[ReplicaResult]:
    """The results, without the metrics of those with which the job exceeds MAX_JOB_METRICS."""
    left = MAX_JOB_METRICS
    for result in found:
        left -= len(result.metrics or b"")
        if result.metrics is None or left >= 0:
            yield result
        else:
            problem = f"the job has left more than {MAX_JOB_METRICS} bytes in {METRICS_FILE}, which is all that is kept"
            yield replace(result, metrics=None, metrics_problem=problem)


def row(job_id: str, result: ReplicaResult) -> dict[str, Any]:
    """A result as a row of `job_results`: its parsed output and metrics, or why they cannot be parsed."""
    output, problem = None, result.output_problem
    metrics, metrics_problem = None, result.metrics_problem
    try:
        output = None if result.output is None else read_output(result.output)
    except InvalidResult as error:
        problem = str(error)
    try:
        metrics = None if result.metrics is None else read_metrics(result.metrics)
    except InvalidResult as error:
        metrics_problem = str(error)
    return {
        "job_id": job_id,
        "role": result.role,
        "index": result.index,
        "output": output,
        "metrics": metrics,
        "problem": problem,
        "metrics_problem": metrics_problem,
        "unknown": result.unknown,
        "collected_at": now(),
    }
