"""Reading what a job's replicas wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.clusters import cluster
from pipeline_core.clusters.base import LogQuery
from pipeline_core.database.models import JobDocument
from pipeline_core.errors import NotFound
from pipeline_core.jobs.queries import visible
from pipeline_core.taskset.document import roles
from pipeline_core.tokens.actor import Actor


def is_merged(session: Session, job_id: str, actor: Actor, query: LogQuery) -> bool:
    """Whether the lines that are asked for come from several replicas, and so need a prefix.

    Raises NotFound when there is no such job, no such task in its TaskSet, or no such replica of the task.
    """
    visible(session, job_id, actor)
    taskset = session.scalar(select(JobDocument.taskset).where(JobDocument.job_id == job_id))
    return _sources(job_id, taskset, query) > 1


def lines(job_id: str, query: LogQuery, *, merged: bool) -> Iterator[str]:
    """The lines by time, each with its newline; `source | ` before each when they are merged.

    Raises ClusterAway, at the first line at the latest.
    """
    for line in cluster().logs(job_id, query):
        yield f"{line.source} | {line.text}\n" if merged else f"{line.text}\n"


def _sources(job_id: str, taskset: Any, query: LogQuery) -> int:
    amounts = {role.name: role.replicas for role in roles(taskset)} if taskset else {}
    if query.role is not None:
        if query.role not in amounts:
            raise NotFound(f'Job "{job_id}" has no task "{query.role}".')
        amounts = {query.role: amounts[query.role]}
    if query.index is None:
        return sum(amounts.values())
    having = [role for role, amount in amounts.items() if query.index < amount]
    if not having:
        raise NotFound(f'Job "{job_id}" has no replica {query.index} of {query.role or "any task"}.')
    return len(having)
