"""The outputs of tasks: what their jobs have left for the tasks that come after them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from pipeline_core.jobs import results


@dataclass(frozen=True, slots=True)
class Output:
    """The text, None when the job wrote none; or why it is none that can be handed on, which is the task's own fault."""

    text: str | None = None
    problem: str = ""


def read(job_id: str) -> Output:
    """The output of a job that has succeeded: that of its first replica which has one, by role and index.

    Where the cluster cannot collect outputs there is none, and a task that reads it has to be told so. Raises
    ClusterUnavailable, Unavailable.
    """
    for left in results.get(job_id):
        if left.output is not None:
            return Output(left.output)
        if left.problem and not left.unknown:
            return Output(problem=left.problem)
    return Output()


def unknown(session: Session, job_id: str) -> str:
    """Why it cannot be told whether the job wrote an output; empty when it can."""
    found = results.read(session, [job_id]).get(job_id, ())
    return next((left.problem for left in found if left.unknown), "")
