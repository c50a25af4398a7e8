"""What the job of a task has left behind: its output, and its metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from pipeline_core.database import transaction
from pipeline_core.jobs import results


@dataclass(frozen=True, slots=True)
class Output:
    """The text, None when the job wrote none; or why it is none that can be handed on, which is the task's own fault."""

    text: str | None = None
    problem: str = ""


def read(job_id: str) -> Output:
    """The output of a job that has succeeded: that of its first replica which has one, by role and index.

    Where the cluster cannot collect outputs there is none, and a task that reads it has to be told so. Raises
    ClusterAway, Unavailable.
    """
    found = results.collect(job_id)
    if not found:
        # Cleaning up begins at the same time: it may have kept it and cleared the cluster between the two looks.
        with transaction() as session:
            found = results.read(session, [job_id]).get(job_id, ())
    for left in found:
        if left.output is not None:
            return Output(left.output)
        if left.problem and not left.unknown:
            return Output(problem=left.problem)
    return Output()


def unknown(session: Session, job_id: str) -> str:
    """Why it cannot be told whether the job wrote an output; empty when it can."""
    found = results.read(session, [job_id]).get(job_id, ())
    return next((left.problem for left in found if left.unknown), "")


def metrics(session: Session, job_ids: Collection[str]) -> Mapping[str, list[Any]]:
    """The metrics that the replicas of these jobs left, by job, in their order; jobs without any are left out."""
    kept = results.read(session, job_ids)
    found = {job_id: [metric for left in rows for metric in left.metrics or ()] for job_id, rows in kept.items()}
    return {job_id: own for job_id, own in found.items() if own}
