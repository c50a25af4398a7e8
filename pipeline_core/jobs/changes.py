"""Changes of several jobs, gathered in one transaction and written at its end by one statement.

Jobs are changed as values here: nothing is an object of the session, and nothing is written before. Either they are read and
locked at the beginning (`locked`). Or nothing is read, since who claimed their steps knows them (`as_claimed`): then the
statement locks them, and writes nothing if one is not as it was claimed. Whoever changes one job alone (`lifecycle.lock`) leaves
that to the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import (
    CTE,
    ColumnElement,
    Delete,
    FromClause,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    func,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.orm import Session
from sqlalchemy.sql.schema import ScalarElementColumnDefault

from pipeline_core.database import own_transaction
from pipeline_core.database.models import (
    Delivery,
    Event,
    FeedChange,
    Job,
    JobDocument,
    Registry,
    Replica,
    RunSignal,
    Step,
    TrailRow,
    table,
)
from pipeline_core.database.prepared import Prepared
from pipeline_core.database.rows import Passed
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.jobs import trail_rows
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, TrailEntry
from pipeline_core.states import JobState, ReplicaState

_JOB, _STEP, _DOCUMENT = table(Job), table(Step), table(JobDocument)
_EVENT, _DELIVERY, _TRAIL, _FEED = table(Event), table(Delivery), table(TrailRow), table(FeedChange)
_REPLICA, _SIGNAL = table(Replica), table(RunSignal)

_NOTED = "job changes"

Of = TypeVar("Of", Update, Delete)

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
_DEFAULTS = {column.name: getattr(column.default, "arg", None) for column in _JOB.columns}
_LAUNCHED_COLUMNS = (
    *("stage", "epoch", "state", "reason", "event_sequence", "started_at", "finished_at", "last_observed_at"),
    *("retry_at", "cleanup", "exit_code", "exit_diagnostics"),
)
"""The columns of a job that change when it is launched, and when it runs or ends at once."""


class LockNeeded(Exception):
    """The jobs have to be locked and read before they can be changed."""


@dataclass(slots=True)
class Changes:
    """What is to be written of some jobs. `plugins` are those that are registered at the time; `jobs` may be changed.

    Unless they `are_locked`, the jobs are those of steps of the launch, as they were claimed.
    """

    plugins: Snapshot
    jobs: Mapping[str, Job]
    owners: Mapping[str, str]
    leases: Mapping[str, datetime | None]
    before: Mapping[str, Mapping[str, Any]]
    are_locked: bool = True
    removed: list[dict[str, Any]] = field(default_factory=list)
    trail: list[dict[str, Any]] = field(default_factory=list)
    feed: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    replicas: list[dict[str, Any]] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)
    signals: list[dict[str, Any]] = field(default_factory=list)

    def holds(self, step: ClaimedStep) -> bool:
        """Whether the owner of the step holds it, and its job is locked."""
        return self.owners.get(step.job_id) == step.owner

    def remove_step(self, job_id: str) -> datetime | None:
        """Remove the step of a job. Returns the end of its lease."""
        self.removed.append({"job_id": job_id})
        return self.leases[job_id]

    def delete_removed(self, session: Session) -> None:
        """Delete the steps that have been removed so far at once, since a new one is to be stored. Raises LockNeeded."""
        if not self.are_locked:
            raise LockNeeded
        if self.removed:
            session.execute(_DELETE_STEPS, _REMOVED.parameters(self.removed))
            self.removed.clear()

    def write_trail(self, step: ClaimedStep, entries: Sequence[TrailEntry]) -> None:
        """Write the plugin calls of a step."""
        self.trail += trail_rows.rows_of(step, entries)

    def stop_replicas(self, job_id: str, moment: datetime) -> None:
        """Change the replicas of a job that are to be written and have not ended into stopped ones."""
        for row in self.replicas:
            if row["job_id"] == job_id and not ReplicaState(row["state"]).ended:
                row |= {"state": ReplicaState.STOPPED, "finished_at": moment}

    def write(self, session: Session) -> None:
        """Write all of it by one statement. The jobs are locked."""
        columns, jobs = _changed(self)
        _write(session, self._rows(jobs), columns)

    def write_as_claimed(self, session: Session) -> None:
        """Lock the jobs and write all of it by one statement: a transaction of its own, unless the session has begun one.

        Raises LockNeeded, and writes nothing, if a job is not as it was claimed, if its owner no longer holds its step, if
        another transaction has locked it, or if other plugins are registered now.
        """
        columns, _ = _changed(self)
        if self.trail or not set(columns) <= set(_LAUNCHED_COLUMNS):
            raise LockNeeded
        claimed = [
            {"job_id": job_id, "lease_owner": owner, **{name: self.before[job_id][name] for name in _CLAIMED_AS}}
            for job_id, owner in self.owners.items()
        ]
        jobs = [{name: getattr(job, name) for name in ("id", *_LAUNCHED_COLUMNS)} for job in self.jobs.values()]
        parameters = _CLAIMED.parameters(claimed) | {"number": len(claimed), "registry_version": self.plugins.version}
        rows = self._rows(jobs)
        for name, passed in _LAUNCHING_PARTS.items():
            parameters |= passed.parameters(rows[name])
        connection = session.connection()
        with own_transaction(connection):
            if not LAUNCHING.execute(connection, parameters).scalar_one():
                raise LockNeeded

    def _rows(self, jobs: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        return {
            "jobs": jobs,
            "removed": self.removed,
            "trail": self.trail,
            "feed": self.feed,
            "events": self.events,
            "deliveries": self.deliveries,
            "replicas": self.replicas,
            "documents": self.documents,
            "signals": self.signals,
        }


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
    with _gathering(session, changes):
        yield changes


@contextmanager
def as_claimed(session: Session, steps: Sequence[ClaimedStep], plugins: Snapshot) -> Iterator[Changes]:
    """The jobs of these claimed steps of the launch as the claims have read them: first launches, of which nothing was observed.
    Within the block, `lifecycle` gathers its changes there; `Changes.write_as_claimed` writes them. Costs no statement."""
    before = {
        step.job_id: {
            **_DEFAULTS,
            "id": step.job_id,
            "name": step.name,
            "state": JobState.WAITING,
            **{name: getattr(step, name) for name in _KNOWN},
        }
        for step in steps
    }
    changes = Changes(
        plugins=plugins,
        jobs={job_id: Job(**values) for job_id, values in before.items()},
        owners={step.job_id: step.owner for step in steps},
        leases=dict.fromkeys(before),
        before=before,
        are_locked=False,
    )
    with _gathering(session, changes):
        yield changes


@contextmanager
def _gathering(session: Session, changes: Changes) -> Iterator[None]:
    session.info[_NOTED] = changes
    try:
        yield
    finally:
        del session.info[_NOTED]


def gathered(session: Session) -> Changes | None:
    """The changes that are gathered in the session's transaction, if they are."""
    found: Changes | None = session.info.get(_NOTED)
    return found


def write_replicas(session: Session, rows: list[dict[str, Any]]) -> None:
    """Write rows of replicas, which replace earlier ones; where changes are gathered, in their statement."""
    _gather_or_write(session, "replicas", rows)


def write_documents(session: Session, rows: list[dict[str, Any]]) -> None:
    """Write `roles` and `platform` of jobs; what a row lacks keeps its value. Where changes are gathered, in their statement."""
    _gather_or_write(session, "documents", rows)


def write_signals(session: Session, rows: list[dict[str, Any]]) -> None:
    """Write signals of the runs that jobs are tasks of; where changes are gathered, in their statement."""
    _gather_or_write(session, "signals", rows)


def _gather_or_write(session: Session, part: str, rows: list[dict[str, Any]]) -> None:
    if changes := gathered(session):
        getattr(changes, part).extend(rows)
    else:
        _write(session, {part: rows})


def _write(session: Session, rows: Mapping[str, Sequence[Mapping[str, Any]]], columns: tuple[str, ...] = ()) -> None:
    """Write the rows of these parts, and these columns of jobs, by one statement."""
    parts = tuple(name for name in rows if rows[name])
    if not parts:
        return
    statement, passed = _writing(parts, columns)
    parameters: dict[str, Any] = {}
    for name in parts:
        parameters |= passed[name].parameters(rows[name])
    session.execute(statement, parameters)


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


Part = tuple[CTE, Passed]
"""What writes some rows, and what passes them. With `held`, the rows of those jobs only."""


def _parts(held: CTE | None = None) -> dict[str, Part]:
    events = _of_events(held)
    return {
        "removed": _of_removed_steps(held),
        "trail": _of_trail(held),
        "feed": _of_feed_changes(held),
        "events": events,
        "deliveries": _of_deliveries(events[0]),
        "replicas": _of_replicas(held),
        "documents": _of_documents(held),
        "signals": _of_signals(held),
    }


def _of_jobs(columns: tuple[str, ...], held: CTE | None = None) -> Part:
    passed = Passed("changed", (_JOB.c[name] for name in ("id", *columns)))
    values = {name: passed.column(name) for name in columns}
    changed = _only(update(_JOB).where(_JOB.c.id == passed.column("id")), _JOB.c.id, held)
    return changed.values(values).cte("of_jobs"), passed


def _of_removed_steps(held: CTE | None) -> Part:
    return _only(_DELETE_STEPS, _STEP.c.job_id, held).cte("of_removed"), _REMOVED


def _of_trail(held: CTE | None) -> Part:
    passed = Passed("entries", (_TRAIL.c[name] for name in trail_rows.COLUMNS))
    return _inserted(_TRAIL, _all_of(passed, trail_rows.COLUMNS), _rows_of(passed, held)).cte("of_entries"), passed


def _of_feed_changes(held: CTE | None) -> Part:
    names = ("kind", "user_id", "document", "occurred_at")
    passed = Passed("noted", (_STEP.c.job_id, *(_FEED.c[name] for name in names)))
    return _inserted(_FEED, _all_of(passed, names), _rows_of(passed, held)).cte("of_feed_changes"), passed


def _of_events(held: CTE | None) -> Part:
    names = ("job_id", "sequence", "state", "previous_state", "reason", "actor", "occurred_at")
    passed = Passed("happened", (_EVENT.c[name] for name in names))
    key = (_EVENT.c.id, _EVENT.c.job_id, _EVENT.c.sequence)
    inserted = _inserted(_EVENT, _all_of(passed, names), _rows_of(passed, held))
    return inserted.returning(*key).cte("of_events"), passed


def _of_deliveries(event: CTE) -> Part:
    names = ("id", "subject_id", "sequence", "plugin_key", "status", "created_at", "next_at", "give_up_at")
    passed = Passed("enqueued", (_DELIVERY.c[name] for name in names))
    of_event = (event.c.job_id == passed.column("subject_id")) & (event.c.sequence == passed.column("sequence"))
    values = {"event_id": event.c.id, **_all_of(passed, names)}
    return _inserted(_DELIVERY, values, passed.rows.join(event, of_event)).cte("of_deliveries"), passed


def _of_replicas(held: CTE | None) -> Part:
    passed = Passed("reported", _REPLICA.columns)
    names = [column.name for column in _REPLICA.columns]
    inserted = _inserted(_REPLICA, _all_of(passed, names), _rows_of(passed, held))
    key = [column.name for column in _REPLICA.primary_key]
    newer = {name: inserted.excluded[name] for name in names if name not in key}
    return inserted.on_conflict_do_update(index_elements=key, set_=newer).cte("of_replicas"), passed


def _of_documents(held: CTE | None) -> Part:
    names = ("roles", "platform")
    passed = Passed("observed", (_DOCUMENT.c[name] for name in ("job_id", *names)))
    values = {name: func.coalesce(passed.column(name), _DOCUMENT.c[name]) for name in names}
    changed = _only(update(_DOCUMENT).where(_DOCUMENT.c.job_id == passed.column("job_id")), _DOCUMENT.c.job_id, held)
    return changed.values(values).cte("of_documents"), passed


def _of_signals(held: CTE | None) -> Part:
    names = ("run_id", "job_id", "at")
    passed = Passed("signalled", (_SIGNAL.c[name] for name in names))
    return _inserted(_SIGNAL, _all_of(passed, names), _rows_of(passed, held)).cte("of_signals"), passed


def _only(statement: Of, job_id: ColumnElement[str], held: CTE | None) -> Of:
    return statement if held is None else statement.where(job_id == held.c.id)


def _rows_of(passed: Passed, held: CTE | None) -> FromClause:
    return passed.rows if held is None else passed.rows.join(held, held.c.id == passed.column("job_id"))


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
_PARTS = _parts()

_KNOWN = (
    *("user_id", "kind", "namespace", "stage", "epoch", "event_sequence", "attempt", "run_id"),
    *("request_id", "traceparent"),
)
"""What a claimed step has of its job, by column."""
_CLAIMED_AS = ("epoch", "event_sequence", "attempt")
_CLAIMED = Passed("claimed", (_STEP.c.job_id, _STEP.c.lease_owner, *(_JOB.c[name] for name in _CLAIMED_AS)))


def _as_claimed() -> CTE:
    """The jobs, locked, if all are as they were claimed. Whoever observes one before its launch is written sets
    `last_observed_at`."""
    version = select(table(Registry).c.version).scalar_subquery()
    found = (
        select(_JOB.c.id)
        .select_from(_CLAIMED.rows)
        .join(_STEP, _STEP.c.job_id == _CLAIMED.column("job_id"))
        .join(_JOB, _JOB.c.id == _STEP.c.job_id)
        .where(
            _STEP.c.stage == literal_column(f"'{Stage.LAUNCH}'"),
            _STEP.c.lease_owner == _CLAIMED.column("lease_owner"),
            _STEP.c.epoch == _CLAIMED.column("epoch"),
            *(_JOB.c[name] == _CLAIMED.column(name) for name in _CLAIMED_AS),
            _JOB.c.last_observed_at.is_(None),
            version == bindparam("registry_version"),
        )
        .with_for_update(of=(_JOB, _STEP), key_share=True, skip_locked=True)
        .cte("found")
    )
    number = select(func.count()).select_from(found).scalar_subquery()
    return select(found.c.id).where(number == bindparam("number")).cte("held")


def _launching() -> tuple[Prepared, Mapping[str, Passed]]:
    held = _as_claimed()
    written = {**_parts(held), "jobs": _of_jobs(_LAUNCHED_COLUMNS, held)}
    # A launch calls no plugin.
    del written["trail"]
    statement = select(func.count()).select_from(held).add_cte(*(cte for cte, _ in written.values()))
    return Prepared(statement), {name: passed for name, (_, passed) in written.items()}


LAUNCHING, _LAUNCHING_PARTS = _launching()
"""The statement that writes first launches."""
