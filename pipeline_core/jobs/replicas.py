"""What is recorded of jobs' replicas: read, brought up to date by what a cluster told, and written, for many jobs at once."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, Column, Text, bindparam, cast, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.clusters.base import Observation, ReplicaReport
from pipeline_core.database.models import JobDocument, Replica, table
from pipeline_core.states import ReplicaState

_RANK = {ReplicaState.WAITING: 0, ReplicaState.RUNNING: 1}
_ENDED = 2

_DOCUMENT, _REPLICA = table(JobDocument), table(Replica)
_KEY = ("job_id", "role", "index")
_COLUMNS = list(_REPLICA.columns)


def _rows(name: str, *columns: Column[Any]) -> Any:
    """The rows of a JSON array that is given as the parameter `rows`: one statement for however many."""
    types = [Column(column.name, column.type) for column in columns]
    found = func.json_to_recordset(bindparam("rows", type_=JSON)).table_valued(*types, name=name)
    return found.render_derived(with_types=True)


_TOLD = _rows("told", *_COLUMNS)
_INSERT = insert(_REPLICA).from_select([column.name for column in _COLUMNS], select(_TOLD))
_UPSERT = _INSERT.on_conflict_do_update(
    index_elements=_KEY,
    set_={column.name: _INSERT.excluded[column.name] for column in _COLUMNS if column.name not in _KEY},
)
_CHANGED = _rows("changed", _DOCUMENT.c.job_id, _DOCUMENT.c.roles, _DOCUMENT.c.platform)
_UPDATE = (
    update(_DOCUMENT)
    .where(_DOCUMENT.c.job_id == _CHANGED.c.job_id)
    .values({name: func.coalesce(_CHANGED.c[name], _DOCUMENT.c[name]) for name in ("roles", "platform")})
)
_RECORDED = (
    select(_DOCUMENT.c.job_id, cast(_DOCUMENT.c.roles, Text), cast(_DOCUMENT.c.platform, Text), *_COLUMNS[1:])
    .outerjoin(_REPLICA, _REPLICA.c.job_id == _DOCUMENT.c.job_id)
    .where(_DOCUMENT.c.job_id.in_(bindparam("job_ids", expanding=True)))
)
"""Of each job one row for each of its replicas, or one without a replica. The documents are read once per job."""


@dataclass(frozen=True, slots=True)
class Record:
    """The states of a job's roles, what only its cluster knows, and the latest try of each replica."""

    roles: Mapping[str, ReplicaState]
    platform: Mapping[str, Any] | None
    known: dict[tuple[str, int], ReplicaReport]

    def take(self, observation: Observation) -> list[ReplicaReport]:
        """Take in what was told; the reports that are to be written."""
        told = [one for one in observation.replicas if newer(self.known.get((one.role, one.index)), one)]
        changed = [one for one in told if self.known.get((one.role, one.index)) != one]
        self.known.update({(one.role, one.index): one for one in told})
        return changed


def newer(known: ReplicaReport | None, told: ReplicaReport) -> bool:
    """Whether `told` says more than what is known: observations may arrive in any order, and states never go back."""
    if known is None:
        return True
    return (told.attempt, _RANK.get(told.state, _ENDED)) >= (known.attempt, _RANK.get(known.state, _ENDED)) and not (
        known.state.ended and told.attempt == known.attempt
    )


def read(session: Session, job_ids: Collection[str]) -> dict[str, Record]:
    """The records of these jobs."""
    found: dict[str, Record] = {}
    for job_id, roles, platform, *replica in session.execute(_RECORDED, {"job_ids": list(job_ids)}):
        if job_id not in found:
            states = {name: ReplicaState(state) for name, state in (json.loads(roles or "null") or {}).items()}
            found[job_id] = Record(states, json.loads(platform or "null"), {})
        if replica[0] is not None:
            report = _report(replica)
            found[job_id].known[report.role, report.index] = report
    return found


def write(session: Session, changed: Mapping[str, Collection[ReplicaReport]]) -> None:
    """Write down these reports, by job."""
    rows = [_row(job_id, report) for job_id, reports in changed.items() for report in reports]
    if rows:
        session.execute(_UPSERT, {"rows": rows})


def write_documents(session: Session, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Write down what is new of jobs' `roles` and `platform`; what is not among a job's changes stays."""
    rows = [{"job_id": job_id, **change} for job_id, change in changes.items() if change]
    if rows:
        session.execute(_UPDATE, {"rows": rows})


_FIELDS = tuple(column.name for column in _COLUMNS)


def _report(values: Sequence[Any]) -> ReplicaReport:
    fields = dict(zip(_FIELDS[1:], values, strict=True))
    return ReplicaReport(**{**fields, "state": ReplicaState(fields["state"])})


def _row(job_id: str, report: ReplicaReport) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(report, name) for name in _FIELDS[1:]}
    times = {name: row[name] and row[name].isoformat() for name in ("started_at", "finished_at")}
    return {**row, **times, "job_id": job_id, "diagnostics": report.diagnostics.replace("\0", "")}
