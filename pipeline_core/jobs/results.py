"""What the replicas of a job left behind: taken from the cluster once they have ended, and kept with the job."""

from __future__ import annotations

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
from pipeline_core.taskset.results import MAX_METRICS, METRICS_FILE, Unfit, read_metrics, read_output

Results = tuple[JobResult, ...]

MAX_JOB_METRICS = 32 * MAX_METRICS
"""Bytes of the metrics of all replicas of a job together."""


def collect(job_id: str) -> Results:
    """What an ended job's replicas left behind, those that left nothing aside: as it is kept, or else from the cluster, to
    be kept from now on. Harmless at any time, for any job.

    Raises ClusterUnavailable, Unavailable.
    """
    # Cleaning up may keep it and clear the cluster between the first look and the asking.
    return _kept(job_id) or keep(job_id) or _kept(job_id)


def _kept(job_id: str) -> Results:
    with transaction() as session:
        return read(session, [job_id]).get(job_id, ())


@again_if_contended
def keep(job_id: str) -> Results:
    """Ask the cluster what an ended job left behind, and keep it; what is kept already stays as it is.

    Costs nothing in the database when there is nothing. Raises ClusterUnavailable, Unavailable.
    """
    rows = [row(job_id, result) for result in _within_bounds(cluster().results(job_id))]
    if not rows:
        return ()
    with transaction() as session:
        # A job that is deleted meanwhile takes its results along.
        job = session.scalar(select(Job.id).where(Job.id == job_id).with_for_update(read=True, key_share=True))
        if job is None:
            return ()
        session.execute(insert(table(JobResult)).on_conflict_do_nothing(), rows)
        return read(session, [job_id])[job_id]


def read(session: Session, job_ids: Collection[str]) -> Mapping[str, Results]:
    """What is kept of each of these jobs, by role and index; jobs of which nothing is are left out."""
    found: dict[str, list[JobResult]] = defaultdict(list)
    query = select(JobResult).where(JobResult.job_id.in_(job_ids))
    for result in session.scalars(query.order_by(JobResult.job_id, JobResult.role, JobResult.index)):
        found[result.job_id].append(result)
    return {job_id: tuple(results) for job_id, results in found.items()}


def _within_bounds(found: Iterable[ReplicaResult]) -> Iterator[ReplicaResult]:
    """The results, without the metrics of those that come when there is enough."""
    room = MAX_JOB_METRICS
    for result in found:
        room -= len(result.metrics or b"")
        if result.metrics is None or room >= 0:
            yield result
        else:
            problem = f"the job has left more than {MAX_JOB_METRICS} bytes in {METRICS_FILE}, which is all that is kept"
            yield replace(result, metrics=None, metrics_problem=problem)


def row(job_id: str, result: ReplicaResult) -> dict[str, Any]:
    """How a result is kept: read, and with what is wrong with it in its place when it cannot be."""
    output, problem = None, result.output_problem
    metrics, metrics_problem = None, result.metrics_problem
    try:
        output = None if result.output is None else read_output(result.output)
    except Unfit as fault:
        problem = str(fault)
    try:
        metrics = None if result.metrics is None else read_metrics(result.metrics)
    except Unfit as fault:
        metrics_problem = str(fault)
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
