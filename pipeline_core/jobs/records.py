"""What is recorded of jobs' replicas: read, brought up to date by what a cluster told, and written, for many jobs at once."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Text, bindparam, cast, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.clusters.base import Observation, ReplicaReport
from pipeline_core.database.models import JobDocument, Replica, table
from pipeline_core.states import ReplicaState

_RANK = {ReplicaState.WAITING: 0, ReplicaState.RUNNING: 1}
_ENDED = 2

_DOCUMENT, _REPLICA = table(JobDocument), table(Replica)
_KEY = ("job_id", "role", "index")
_INSERT = insert(_REPLICA)
_UPSERT = _INSERT.on_conflict_do_update(
    index_elements=_KEY,
    set_={column.name: _INSERT.excluded[column.name] for column in _REPLICA.columns if column.name not in _KEY},
)
_RECORDED = (
    select(
        _DOCUMENT.c.job_id, cast(_DOCUMENT.c.roles, Text), cast(_DOCUMENT.c.platform, Text), *list(_REPLICA.columns)[1:]
    )
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
        session.execute(_UPSERT, rows)


_FIELDS = tuple(column.name for column in _REPLICA.columns)


def _report(values: Sequence[Any]) -> ReplicaReport:
    fields = dict(zip(_FIELDS[1:], values, strict=True))
    return ReplicaReport(**{**fields, "state": ReplicaState(fields["state"])})


def _row(job_id: str, report: ReplicaReport) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(report, name) for name in _FIELDS[1:]}
    return {**row, "job_id": job_id, "diagnostics": report.diagnostics.replace("\0", "")}
