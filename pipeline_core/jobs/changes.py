"""Changes of several jobs, gathered in one transaction and written at its end by one statement.

A transaction that locks many jobs changes them as values (`locked`): nothing is an object of the session, and nothing is written
before. Whoever changes one job alone (`lifecycle.lock`) leaves that to the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Insert,
    Select,
    Table,
    delete,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.orm import Session
from sqlalchemy.sql.schema import ScalarElementColumnDefault

from pipeline_core.database.models import (
    Delivery,
    Event,
    FeedChange,
    Job,
    JobDocument,
    Registry,
    Step,
    TrailRow,
    table,
)
from pipeline_core.database.prepared import Prepared
from pipeline_core.database.rows import Passed
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.jobs import trail_rows
from pipeline_core.stages.outcomes import ClaimedStep, TrailEntry

_JOB, _STEP, _DOCUMENT = table(Job), table(Step), table(JobDocument)
_EVENT, _DELIVERY, _TRAIL, _FEED = table(Event), table(Delivery), table(TrailRow), table(FeedChange)

_NOTED = "job changes"

_HELD_BY = Passed("held_by", (_STEP.c.job_id, _STEP.c.epoch, _STEP.c.stage, _STEP.c.lease_owner))
_HELD = (
    select(
        *_JOB.c,
        _STEP.c.lease_owner.label("step_lease_owner"),
        _STEP.c.lease_until.label("step_lease_until"),
        select(table(Registry).c.version).scalar_subquery().label("registry_version"),
    )
    .select_from(_HELD_BY.rows)
    .join(_STEP, _STEP.c.job_id == _HELD_BY.column("job_id"))
    .join(_JOB, _JOB.c.id == _STEP.c.job_id)
    .where(
        _STEP.c.stage == _HELD_BY.column("stage"),
        _STEP.c.lease_owner == _HELD_BY.column("lease_owner"),
        _STEP.c.epoch == _HELD_BY.column("epoch"),
        _JOB.c.epoch == _STEP.c.epoch,
    )
    .order_by(_JOB.c.id)
)
_HELD_AT_ONCE = Prepared(_HELD.with_for_update(of=(_JOB, _STEP), key_share=True, skip_locked=True))
_HELD_IN_TIME = Prepared(_HELD.with_for_update(of=(_JOB, _STEP), key_share=True))
_COLUMNS = tuple(column.name for column in _JOB.columns)


@dataclass(slots=True)
class Changes:
    """What is to be written of some locked jobs. `plugins` are those that are registered at the time; `jobs` may be changed."""

    plugins: Snapshot
    jobs: Mapping[str, Job]
    owners: Mapping[str, str]
    leases: Mapping[str, datetime]
    before: Mapping[str, Mapping[str, Any]]
    removed: list[dict[str, Any]] = field(default_factory=list)
    trail: list[dict[str, Any]] = field(default_factory=list)
    feed: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    deliveries: list[dict[str, Any]] = field(default_factory=list)

    def holds(self, step: ClaimedStep) -> bool:
        """Whether the owner of the step holds it, and its job is locked."""
        return self.owners.get(step.job_id) == step.owner

    def remove_step(self, job_id: str) -> datetime | None:
        """Remove the step of a job. Returns the end of its lease."""
        self.removed.append({"job_id": job_id})
        return self.leases[job_id]

    def delete_removed(self, session: Session) -> None:
        """Delete the steps that have been removed so far at once, since a new one is to be stored."""
        if self.removed:
            session.execute(_DELETE_STEPS, _REMOVED.parameters(self.removed))
            self.removed.clear()

    def write_trail(self, step: ClaimedStep, entries: Sequence[TrailEntry]) -> None:
        """Write the plugin calls of a step."""
        self.trail += trail_rows.rows_of(step, entries)

    def write(self, session: Session) -> None:
        """Write all of it by one statement."""
        columns, jobs = _changed(self)
        rows = {
            "jobs": jobs,
            "removed": self.removed,
            "trail": self.trail,
            "feed": self.feed,
            "events": self.events,
            "deliveries": self.deliveries,
        }
        parts = tuple(name for name in rows if rows[name])
        if not parts:
            return
        statement, passed = _writing(parts, columns)
        parameters: dict[str, Any] = {}
        for name in parts:
            parameters |= passed[name].parameters(rows[name])
        session.execute(statement, parameters)


@contextmanager
def locked(session: Session, steps: Sequence[ClaimedStep], *, wait: bool) -> Iterator[Changes]:
    """The jobs of these claimed steps, as far as their owners still hold them, locked until the transaction ends. Within the
    block, `lifecycle` gathers its changes there; `Changes.write` writes them.

    Unless it is to `wait`, jobs are left out that another transaction has locked.
    """
    held = [
        {"job_id": step.job_id, "epoch": step.epoch, "stage": step.stage, "lease_owner": step.owner} for step in steps
    ]
    locking = _HELD_IN_TIME if wait else _HELD_AT_ONCE
    found = locking.execute(session.connection(), _HELD_BY.parameters(held)).all()
    before = {row.id: dict(zip(_COLUMNS, row, strict=False)) for row in found}
    changes = Changes(
        plugins=snapshot.at(session, found[0].registry_version) if found else snapshot.current(session),
        jobs={job_id: Job(**values) for job_id, values in before.items()},
        owners={row.id: row.step_lease_owner for row in found},
        leases={row.id: row.step_lease_until for row in found},
        before=before,
    )
    session.info[_NOTED] = changes
    try:
        yield changes
    finally:
        del session.info[_NOTED]


def gathered(session: Session) -> Changes | None:
    """The changes that are gathered in the session's transaction, if they are."""
    found: Changes | None = session.info.get(_NOTED)
    return found


def _changed(changes: Changes) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The columns that differ in any of the jobs, and their values in those that have changed."""
    now = {job_id: {name: getattr(job, name) for name in _COLUMNS} for job_id, job in changes.jobs.items()}
    jobs = [job_id for job_id, values in now.items() if values != changes.before[job_id]]
    columns = tuple(
        name for name in _COLUMNS if any(now[job_id][name] != changes.before[job_id][name] for job_id in jobs)
    )
    return columns, [{name: now[job_id][name] for name in ("id", *columns)} for job_id in jobs]


@cache
def _writing(parts: tuple[str, ...], columns: tuple[str, ...]) -> tuple[Select[Any], Mapping[str, Passed]]:
    """The statement that writes these parts, and these columns of jobs, with what passes its rows."""
    written = {**_PARTS, "jobs": _of_jobs(columns)}
    statement = select(literal(1)).add_cte(*(written[name][0] for name in parts))
    return statement, {name: written[name][1] for name in parts}


def _of_jobs(columns: tuple[str, ...]) -> tuple[CTE, Passed]:
    passed = Passed("changed", (_JOB.c[name] for name in ("id", *columns)))
    values = {name: passed.column(name) for name in columns}
    return update(_JOB).where(_JOB.c.id == passed.column("id")).values(values).cte("of_jobs"), passed


def _of_removed_steps() -> tuple[CTE, Passed]:
    return _DELETE_STEPS.cte("of_removed"), _REMOVED


def _of_trail() -> tuple[CTE, Passed]:
    passed = Passed("entries", (_TRAIL.c[name] for name in trail_rows.COLUMNS))
    return _inserted(_TRAIL, _all_of(passed, trail_rows.COLUMNS), passed.rows).cte("of_entries"), passed


def _of_feed_changes() -> tuple[CTE, Passed]:
    names = ("kind", "user_id", "document", "occurred_at")
    passed = Passed("noted", (_FEED.c[name] for name in names))
    return _inserted(_FEED, _all_of(passed, names), passed.rows).cte("of_feed_changes"), passed


def _of_events() -> tuple[CTE, Passed]:
    names = ("job_id", "sequence", "state", "previous_state", "reason", "actor", "occurred_at")
    passed = Passed("happened", (_EVENT.c[name] for name in names))
    key = (_EVENT.c.id, _EVENT.c.job_id, _EVENT.c.sequence)
    return _inserted(_EVENT, _all_of(passed, names), passed.rows).returning(*key).cte("of_events"), passed


def _of_deliveries(event: CTE) -> tuple[CTE, Passed]:
    names = ("id", "subject_id", "sequence", "plugin_key", "status", "created_at", "next_at", "give_up_at")
    passed = Passed("enqueued", (_DELIVERY.c[name] for name in names))
    of_event = (event.c.job_id == passed.column("subject_id")) & (event.c.sequence == passed.column("sequence"))
    values = {"event_id": event.c.id, **_all_of(passed, names)}
    return _inserted(_DELIVERY, values, passed.rows.join(event, of_event)).cte("of_deliveries"), passed


def _all_of(passed: Passed, names: Sequence[str]) -> dict[str, ColumnElement[Any]]:
    return {name: passed.column(name) for name in names}


def _inserted(into: Table, values: Mapping[str, ColumnElement[Any]], rows: FromClause) -> Insert:
    """An INSERT of these values. Other columns have their defaults, which SQLAlchemy leaves out within a CTE."""
    defaults = {
        column.name: literal(column.default.arg, column.type)
        for column in into.columns
        if column.name not in values and isinstance(column.default, ScalarElementColumnDefault)
    }
    every = {**values, **defaults}
    return insert(into).from_select([*every], select(*every.values()).select_from(rows), include_defaults=False)


_REMOVED = Passed("removed", (_STEP.c.job_id,))
_DELETE_STEPS = delete(_STEP).where(_STEP.c.job_id == _REMOVED.column("job_id"))
_EVENTS = _of_events()
_PARTS: Mapping[str, tuple[CTE, Passed]] = {
    "removed": _of_removed_steps(),
    "trail": _of_trail(),
    "feed": _of_feed_changes(),
    "events": _EVENTS,
    "deliveries": _of_deliveries(_EVENTS[0]),
}
