"""Replicas: reading and writing their rows, merging observations into them, and their retries.

Rows are read and written for many jobs at once. A role's `retryPolicy` says how often, and after what delay, a failed replica
is retried.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Text, and_, bindparam, cast, func, select
from sqlalchemy.orm import Session

from pipeline_core.clusters.base import LaunchRequest, Observation, ReplicaKey, ReplicaReport
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Job, JobDocument, Replica, table
from pipeline_core.jobs import changes, lifecycle
from pipeline_core.stages.names import Stage
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.taskset.document import Role
from pipeline_core.taskset.document import roles as roles_of

Reports = Mapping[tuple[str, int], ReplicaReport]
"""The latest attempt of each replica, by role and index."""

RETRY_DUE = Job.retry_at <= func.now()
"""Whether the retry of one of a job's replicas is due."""

_RANK = {ReplicaState.WAITING: 0, ReplicaState.RUNNING: 1}
_ENDED = 2

_DOCUMENT, _JOB, _REPLICA = table(JobDocument), table(Job), table(Replica)
_FIELDS = tuple(column.name for column in _REPLICA.columns if column.name not in ("job_id", "job_attempt"))
"""Columns that are fields of a report."""
_KNOWN = (
    select(
        _DOCUMENT.c.job_id,
        cast(_DOCUMENT.c.roles, Text),
        cast(_DOCUMENT.c.platform, Text),
        *(_REPLICA.c[name] for name in _FIELDS),
    )
    .join(_JOB, _JOB.c.id == _DOCUMENT.c.job_id)
    .outerjoin(_REPLICA, and_(_REPLICA.c.job_id == _JOB.c.id, _REPLICA.c.job_attempt == _JOB.c.attempt))
    .where(_DOCUMENT.c.job_id.in_(bindparam("job_ids", expanding=True)))
)
"""For each job one row per replica of its job attempt, or one row without a replica; the documents repeat in each row."""


@dataclass(frozen=True, slots=True)
class KnownReplicas:
    """What is stored of a job's replicas: the roles' states, what only this cluster driver reports, and the latest attempts."""

    roles: Mapping[str, ReplicaState]
    platform: Mapping[str, Any] | None
    reports: dict[tuple[str, int], ReplicaReport]

    def merge(self, observation: Observation) -> list[ReplicaReport]:
        """Update the reports from those that are newer in the observation. Returns the reports that changed."""
        newer = [one for one in observation.replicas if is_newer(one, self.reports.get((one.role, one.index)))]
        changed = [one for one in newer if self.reports.get((one.role, one.index)) != one]
        self.reports.update({(one.role, one.index): one for one in newer})
        return changed

    def newer_platform(self, observation: Observation) -> Mapping[str, Any] | None:
        """What this cluster driver reports, if that differs and is newer; else None.

        Observations arrive in any order: of the same job attempt, one that counts fewer outcomes is older.
        """
        found, known = observation.platform, self.platform or {}
        if not found or found == known:
            return None
        same = found.get("controlUnit") == known.get("controlUnit")
        return None if same and _outcomes(found) < _outcomes(known) else found


def _outcomes(platform: Mapping[str, Any]) -> int:
    return sum((platform.get("unitResults") or {}).values())


def is_newer(report: ReplicaReport, known: ReplicaReport | None) -> bool:
    """Whether a report replaces the known one: observations arrive in any order, and states never go back.

    A later attempt replaces an earlier one. Within an attempt a state replaces an equal or earlier one, and nothing replaces
    a final state.
    """
    if known is None or report.attempt > known.attempt:
        return True
    if report.attempt < known.attempt or known.state.ended:
        return False
    return _RANK.get(report.state, _ENDED) >= _RANK.get(known.state, _ENDED)


def read(session: Session, job_ids: Collection[str]) -> dict[str, KnownReplicas]:
    """What is stored of the replicas of these jobs in their present job attempts, by job."""
    found: dict[str, KnownReplicas] = {}
    for job_id, roles, platform, *replica in session.execute(_KNOWN, {"job_ids": list(job_ids)}):
        if job_id not in found:
            states = {name: ReplicaState(state) for name, state in (json.loads(roles or "null") or {}).items()}
            found[job_id] = KnownReplicas(states, json.loads(platform or "null"), {})
        if replica[0] is not None:
            report = _report(replica)
            found[job_id].reports[report.role, report.index] = report
    return found


def write(session: Session, changed: Iterable[tuple[Job, Collection[ReplicaReport]]]) -> None:
    """Write these reports of jobs in their present job attempts; where changes are gathered, in their statement."""
    changes.write_replicas(session, [_row(job, report) for job, reports in changed for report in reports])


def write_documents(session: Session, changed: Mapping[str, Mapping[str, Any]]) -> None:
    """Write changes of jobs' `roles` and `platform`; a column that is not among a job's changes keeps its value.

    Where changes are gathered, it is done in their statement.
    """
    rows = [{"job_id": job_id, **change} for job_id, change in changed.items() if change]
    changes.write_documents(session, rows)


def _report(values: Sequence[Any]) -> ReplicaReport:
    fields = dict(zip(_FIELDS, values, strict=True))
    return ReplicaReport(**{**fields, "state": ReplicaState(fields["state"])})


def _row(job: Job, report: ReplicaReport) -> dict[str, Any]:
    return {
        **{name: getattr(report, name) for name in _FIELDS},
        "job_id": job.id,
        "job_attempt": job.attempt,
        "diagnostics": report.diagnostics.replace("\0", ""),
    }


def counted(role: Role, report: ReplicaReport | None) -> ReplicaState:
    """A replica's state as it counts for its role: a failed replica that will be retried counts as running."""
    if report is None:
        return ReplicaState.WAITING
    if report.state is ReplicaState.FAILED and role.retry.allows(report.attempt):
        return ReplicaState.RUNNING
    return report.state


def next_retry_at(document: Mapping[str, Any], reports: Reports, states: Mapping[str, ReplicaState]) -> datetime | None:
    """When the next retry of a failed replica is due; None when there is none.

    `states` are the roles' states: replicas of a role that has ended are not retried.
    """
    roles = {role.name: role for role in roles_of(document)}
    times = [
        _retry_at(roles[report.role], report)
        for report in reports.values()
        if report.role in roles and _is_retried(roles[report.role], states[report.role], report)
    ]
    return min(times, default=None)


def _is_retried(role: Role, state: ReplicaState, failed: ReplicaReport | Replica) -> bool:
    """Whether a replica will be retried, while its role is in this state."""
    return not state.ended and failed.state == ReplicaState.FAILED and role.retry.allows(failed.attempt)


def _retry_at(role: Role, failed: ReplicaReport | Replica) -> datetime:
    return (failed.finished_at or now()) + timedelta(seconds=role.retry.delay)


def due_retries(limit: int) -> list[str]:
    """Jobs with a replica whose retry is due."""
    with transaction() as session:
        return list(session.scalars(select(Job.id).where(RETRY_DUE).order_by(Job.retry_at).limit(limit)))


def begin_retries(job_id: str) -> LaunchRequest | None:
    """Begin the next attempt of each replica whose retry is due. Returns the launch to request; None when nothing is due.

    The attempts are committed before they are launched: if the worker dies between, `missing_attempts` finds them.
    """
    with transaction() as session:
        job = lifecycle.lock(session, job_id)
        if job.stage != Stage.CLUSTER or JobState(job.state).final or job.retry_at is None or job.retry_at > now():
            return None
        document = session.scalar(select(JobDocument.taskset).where(JobDocument.job_id == job_id)) or {}
        states = session.scalar(select(JobDocument.roles).where(JobDocument.job_id == job_id)) or {}
        roles = {role.name: role for role in roles_of(document)}
        rows = session.scalars(select(Replica).where(Replica.job_id == job_id)).all()
        later = []
        for row in rows:
            role, state = roles[row.role], ReplicaState(states.get(row.role, ReplicaState.WAITING))
            if not _is_retried(role, state, row):
                continue
            at = _retry_at(role, row)
            if at > now():
                later.append(at)
                continue
            row.attempt += 1
            row.state, row.reason, row.diagnostics, row.restarts = ReplicaState.WAITING, "", "", 0
            row.exit_code = row.started_at = row.finished_at = None
            job.retried += 1
        job.retry_at = min(later, default=None)
        session.flush()
        return _launch(session, job, document)


def missing_attempts(session: Session, job: Job, observation: Observation) -> LaunchRequest | None:
    """The launch to request when the cluster lacks a replica attempt that was begun; else None."""
    observed = {(report.role, report.index): report.attempt for report in observation.replicas}
    rows = session.scalars(select(Replica).where(Replica.job_id == job.id, Replica.state == ReplicaState.WAITING)).all()
    if all(observed.get((row.role, row.index), -1) >= row.attempt for row in rows):
        return None
    document = session.scalar(select(JobDocument.taskset).where(JobDocument.job_id == job.id)) or {}
    return _launch(session, job, document)


def _launch(session: Session, job: Job, document: Mapping[str, Any]) -> LaunchRequest:
    rows = session.scalars(select(Replica).where(Replica.job_id == job.id))
    attempts = [ReplicaKey(row.role, row.index, row.attempt) for row in rows if not ReplicaState(row.state).ended]
    return LaunchRequest(job.id, job.namespace, job.user_id, document, job.attempt, tuple(sorted(attempts)))
