"""Finding jobs: lists, counts, and single ones that an actor may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, func, select
from sqlalchemy.orm import Session
from ulid import base32

from pipeline_core.auth.actor import Actor
from pipeline_core.database.counting import EXACT_UP_TO, count_up_to
from pipeline_core.database.models import Job, JobDocument
from pipeline_core.errors import NotFound
from pipeline_core.jobs.views import GATE_GONE, LIST_COLUMNS
from pipeline_core.stages.names import Stage
from pipeline_core.states import JobState
from pipeline_core.validation.texts import shown

CLOCK_SLACK = timedelta(minutes=1)
"""How far the time in a job's ID may differ from its `created_at`, which another machine's clock may have set."""


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """Which jobs to find. A job matches if it matches every field that is not empty, by any of the field's values.

    `start_at` and `end_at` bound the time of submission, in whole seconds, both inclusive.
    """

    users: Sequence[str] = ()
    kinds: Sequence[str] = ()
    states: frozenset[JobState] = frozenset()
    stages: Sequence[Stage] = ()
    suspended_by: Sequence[str] = ()
    name_prefix: str = ""
    start_at: datetime | None = None
    end_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """How many there are; a lower bound unless `exact`."""

    count: int
    exact: bool = True

    @classmethod
    def of(cls, counted: int) -> Total:
        """The total from the result of `count_up_to`."""
        return cls(min(counted, EXACT_UP_TO), counted <= EXACT_UP_TO)


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list. `last` is the ID to continue after; None on the last page."""

    jobs: Sequence[Row[Any]]
    total: Total
    last: str | None


def listing(
    session: Session,
    chosen: JobFilter,
    actor: Actor,
    *,
    limit: int,
    offset: int = 0,
    after: str | None = None,
    ascending: bool = False,
    total: Total | None = None,
) -> Listing:
    """A page of jobs in the order of their submission, which is that of their IDs.

    Either `offset` skips jobs, or `after` is the ID of the previous page's last job: only that is fast for late pages.
    `total` is the previous page's total, so that it is not counted again.
    """
    found = matching(select(*LIST_COLUMNS, GATE_GONE), chosen, actor)
    if after is not None:
        found = found.where(Job.id > after if ascending else Job.id < after)
    order = Job.id.asc() if ascending else Job.id.desc()
    # One row more than the limit shows whether there is another page.
    rows = session.execute(found.order_by(order).offset(offset or None).limit(limit + 1)).all()
    jobs, more = rows[:limit], len(rows) > limit
    if total is None:
        whole = after is None and not more and (jobs or not offset)
        counted = offset + len(jobs) if whole else count_up_to(session, matching(select(Job.id), chosen, actor))
        total = Total.of(counted)
    return Listing(jobs, total, jobs[-1].id if more else None)


def count(session: Session, chosen: JobFilter, actor: Actor) -> int:
    """How many jobs there are, exactly."""
    return session.scalar(matching(select(func.count()).select_from(Job), chosen, actor)) or 0


def visible(session: Session, job_id: str, actor: Actor, *columns: Any) -> Row[Any]:
    """These columns of one job. Raises NotFound when there is none, or this actor may not see it."""
    row = session.execute(select(Job.user_id, *columns).where(Job.id == job_id)).one_or_none()
    if row is None or not actor.sees(row.user_id):
        raise NotFound(f"There is no job {shown(job_id)}.")
    return row


def submitted(session: Session, job_id: str, actor: Actor) -> Any:
    """The job as it was submitted."""
    visible(session, job_id, actor)
    return session.scalar(select(JobDocument.submitted).where(JobDocument.job_id == job_id))


def taskset(session: Session, job_id: str, actor: Actor) -> Any:
    """The current TaskSet. Raises NotFound before there is one."""
    state = visible(session, job_id, actor, Job.state).state
    document = session.scalar(select(JobDocument.taskset).where(JobDocument.job_id == job_id))
    if document is None:
        yet = "was never" if JobState(state).final else "has not yet been"
        raise NotFound(f'Job "{job_id}" {yet} translated: it has no TaskSet.')
    return document


def matching(query: Select[Any], chosen: JobFilter, actor: Actor) -> Select[Any]:
    """The query of jobs with the conditions of the filter, and only of jobs that the actor may see."""
    return query.where(*_conditions(chosen, actor))


def _conditions(chosen: JobFilter, actor: Actor) -> list[ColumnElement[bool]]:
    conditions = []
    for column, values in (
        (Job.user_id, chosen.users),
        (Job.kind, chosen.kinds),
        (Job.state, sorted(chosen.states)),
        (Job.stage, chosen.stages),
        (Job.suspended_by, chosen.suspended_by),
    ):
        if values:
            conditions.append(column == values[0] if len(values) == 1 else column.in_(values))
    if chosen.suspended_by:
        conditions.append(Job.suspended_at.is_not(None))
    if actor.own_only:
        conditions.append(Job.user_id == actor.name)
    if chosen.name_prefix:
        conditions.append(Job.name.startswith(chosen.name_prefix, autoescape=True))
    # The time in the IDs finds the range by index; `created_at` then filters exactly.
    if chosen.start_at:
        conditions += [Job.id >= _first_id(chosen.start_at - CLOCK_SLACK), Job.created_at >= chosen.start_at]
    if chosen.end_at:
        end = chosen.end_at + timedelta(seconds=1)
        conditions += [Job.id < _first_id(end + CLOCK_SLACK), Job.created_at < end]
    return conditions


def _first_id(moment: datetime) -> str:
    """A lower bound of the IDs created at `moment` or later. A ULID begins with 48 bits of milliseconds since 1970."""
    milliseconds = min(max(int(moment.timestamp() * 1000), 0), 2**48 - 1)
    return f"j{base32.encode_timestamp(milliseconds.to_bytes(6)).lower()}"
