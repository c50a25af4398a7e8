"""From what the cluster says to what the job is: replicas, roles, the verdict, and the events that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core import faults, wakeups
from pipeline_core.clock import now
from pipeline_core.clusters import cluster
from pipeline_core.clusters.base import Observation, ReplicaKey, ReplicaReport
from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Cleanup, Job, JobDocument, Replica, table
from pipeline_core.faults import Point
from pipeline_core.jobs import lifecycle, retries
from pipeline_core.stages.order import Stage
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.taskset.document import retry_policy
from pipeline_core.taskset.document import roles as roles_of
from pipeline_core.taskset.rollup import RollUp, roll_up

_RANK = {ReplicaState.WAITING: 0, ReplicaState.RUNNING: 1}
_ENDED = 2

_DOCUMENT = table(JobDocument)
_REPLICA_KEY = ("job_id", "role", "index")
_INSERT_REPLICA = insert(table(Replica))
_UPSERT_REPLICA = _INSERT_REPLICA.on_conflict_do_update(
    index_elements=_REPLICA_KEY,
    set_={
        column.name: _INSERT_REPLICA.excluded[column.name]
        for column in table(Replica).columns
        if column.name not in _REPLICA_KEY
    },
)
_KNOWN = (
    select(JobDocument.roles, Replica)
    .outerjoin(Replica, Replica.job_id == JobDocument.job_id)
    .where(JobDocument.job_id == bindparam("job_id"))
)
"""The states of a job's roles beside each of its replicas; one row without a replica when there is none yet."""


@again_if_contended
def observe(job_id: str) -> None:
    """Ask the cluster how a job fares, and write down what it says. Harmless at any time, for any job.

    Raises ClusterAway, Unavailable.
    """
    observation = cluster().observe(job_id)
    faults.reach(Point.CLUSTER_OBSERVED)
    with transaction() as session:
        job = session.execute(select(Job).where(Job.id == job_id).with_for_update(key_share=True)).scalar_one_or_none()
        if job is None:
            return
        if JobState(job.state).final and (job.cleanup == Cleanup.DONE or job.kept_until) and _runs(observation):
            wakeups.after_commit(session, wakeups.CleanupOwed(job_id))
            job.cleanup, job.kept_until = Cleanup.PENDING, None
        if JobState(job.state).final or job.stage != Stage.CLUSTER:
            return
        document = session.execute(select(JobDocument.taskset).where(JobDocument.job_id == job_id)).scalar_one() or {}
        if observation is None:
            observation = _lost(session, job)
        if observation.attempt == job.attempt:
            job.heard_at = now()
            needless = apply(session, job, document, observation)
        else:
            needless = ()
        absent = retries.absent(session, job, observation) if job.retried else None
    if needless:
        cluster().delete(job_id, needless)
    if absent:
        # Whoever wrote down that they are tried again died before it told the cluster.
        cluster().launch(absent)


def try_replicas_again(job_id: str) -> None:
    """Launch the tries of a job's replicas that are due. Raises ClusterAway, Unavailable."""
    unit = retries.begin(job_id)
    if unit is not None:
        cluster().launch(unit)
        observe(job_id)


def _runs(observation: Observation | None) -> bool:
    """Whether something of a job is still to end: a launch that came late, and whose worker died before it learnt that
    the job was stopped, is found by this."""
    return observation is not None and any(not replica.state.ended for replica in observation.replicas)


def _lost(session: Session, job: Job) -> Observation:
    """What to make of a job that the cluster knows nothing of: its replicas were deleted behind our back."""
    rows = session.execute(select(Replica).where(Replica.job_id == job.id)).scalars()
    return Observation(
        job.id,
        job.attempt,
        tuple(
            replace(report, state=ReplicaState.FAILED, reason="PodDeleted", finished_at=now())
            if not report.state.ended
            else report
            for report in map(_report, rows)
        ),
    )


def _report(row: Replica) -> ReplicaReport:
    return ReplicaReport(
        role=row.role,
        index=row.index,
        state=ReplicaState(row.state),
        attempt=row.attempt,
        reason=row.reason,
        exit_code=row.exit_code,
        diagnostics=row.diagnostics,
        started_at=row.started_at,
        finished_at=row.finished_at,
        container_id=row.container_id,
        host_ip=row.host_ip,
        pod_name=row.pod_name,
        pod_uid=row.pod_uid,
        pod_ip=row.pod_ip,
    )


def newer(known: ReplicaReport | None, told: ReplicaReport) -> bool:
    """Whether `told` says more than what is known: observations may arrive in any order, and states never go back."""
    if known is None:
        return True
    return (told.attempt, _RANK.get(told.state, _ENDED)) >= (known.attempt, _RANK.get(known.state, _ENDED)) and not (
        known.state.ended and told.attempt == known.attempt
    )


def apply(
    session: Session,
    job: Job,
    document: Mapping[str, Any],
    observation: Observation,
    *,
    header: Mapping[str, Any] | None = None,
) -> tuple[ReplicaKey, ...]:
    """Write down an observation of a locked job, with the states that follow from it.

    The replicas that a decided role needs no more, for the caller to delete once the transaction has committed.
    """
    rows = session.execute(_KNOWN, {"job_id": job.id}).all()
    known = {(row.Replica.role, row.Replica.index): _report(row.Replica) for row in rows if row.Replica}
    told = [report for report in observation.replicas if newer(known.get((report.role, report.index)), report)]
    _write(session, job.id, [report for report in told if known.get((report.role, report.index)) != report])
    known.update({(report.role, report.index): report for report in told})
    before = {name: ReplicaState(state) for name, state in (rows[0].roles or {}).items()}
    result = _roll_up(document, known, before)
    changes = {
        **({"platform": dict(observation.platform)} if observation.platform else {}),
        **({"roles": dict(result.roles)} if result.roles != before else {}),
    }
    if changes:
        session.execute(update(_DOCUMENT).where(_DOCUMENT.c.job_id == job.id).values(changes))
    return _judge(session, job, document, known, result, header, observation.cleared)


def _roll_up(
    document: Mapping[str, Any], known: Mapping[tuple[str, int], ReplicaReport], before: Mapping[str, ReplicaState]
) -> RollUp:
    roles = roles_of(document)
    states = {
        role.name: [retries.counted(role, known.get((role.name, index))) for index in range(role.replicas)]
        for role in roles
    }
    return roll_up(roles, states, before)


def _judge(
    session: Session,
    job: Job,
    document: Mapping[str, Any],
    known: Mapping[tuple[str, int], ReplicaReport],
    result: RollUp,
    header: Mapping[str, Any] | None,
    cleared: bool,
) -> tuple[ReplicaKey, ...]:
    started = [report.started_at for report in known.values() if report.started_at]
    if started and job.state == JobState.WAITING:
        lifecycle.transition(session, job, JobState.RUNNING, reason="", header=header)
        job.started_at = min(started)
    needless = tuple(
        ReplicaKey(role, index, known[role, index].attempt)
        for role, index in sorted(result.stop)
        if (role, index) in known
    )
    job.retry_at = None
    if result.verdict is None:
        job.retry_at = retries.next_at(document, known, result.roles)
        return needless
    verdict = result.verdict.state
    failed = first_failed(document, known.values())
    reason = _reason(failed) if verdict is ReplicaState.FAILED else ""
    if verdict is ReplicaState.FAILED and retry_policy(document).allows(job.attempt):
        _try_again(session, job, document, reason)
        return needless
    job.exit_code = 0 if verdict is ReplicaState.SUCCEEDED else failed.exit_code if failed else None
    job.exit_diagnostics = failed.diagnostics if failed and verdict is ReplicaState.FAILED else ""
    lifecycle.transition(session, job, JobState(verdict.value), reason=reason, header=header)
    job.finished_at = max(
        (report.finished_at for report in known.values() if report.finished_at), default=job.finished_at
    )
    if job.state == JobState.SUCCEEDED and cleared:
        job.cleanup = Cleanup.DONE
    else:
        wakeups.after_commit(session, wakeups.CleanupOwed(job.id))
    if not all(report.state.ended for report in known.values()):
        stop_replicas(session, job)
    return ()


def _try_again(session: Session, job: Job, document: Mapping[str, Any], reason: str) -> None:
    """Another attempt of the whole TaskSet is owed, after its policy's delay. The job keeps its state meanwhile."""
    delay = retry_policy(document).delay
    job.attempt += 1
    job.retried += 1
    job.stage = Stage.LAUNCH
    job.reason = f"Attempt {job.attempt} failed ({reason}); the next one begins after {delay:g} s."
    stop_replicas(session, job)
    lifecycle.owe_step(session, job, Stage.LAUNCH, now(), delay=delay)


def forget_replicas(session: Session, job: Job) -> None:
    """Make room for the replicas of another attempt."""
    session.execute(delete(Replica).where(Replica.job_id == job.id))
    session.execute(update(_DOCUMENT).where(_DOCUMENT.c.job_id == job.id).values(roles=None))


def first_failed(document: Mapping[str, Any], reports: Iterable[ReplicaReport]) -> ReplicaReport | None:
    """The first failed replica by the order of roles and by index: its exit code and log are the job's."""
    order = {role.name: place for place, role in enumerate(roles_of(document))}
    failed = [report for report in reports if report.state is ReplicaState.FAILED]
    return min(failed, key=lambda report: (order.get(report.role, len(order)), report.index), default=None)


def _reason(failed: ReplicaReport | None) -> str:
    if failed is None:
        return "too few replicas succeeded"
    code = "" if failed.exit_code is None else f", exit code {failed.exit_code}"
    return f"{failed.role}-{failed.index} failed: {failed.reason or 'Error'}{code}"


def stop_replicas(session: Session, job: Job) -> None:
    """Mark the replicas that a verdict or a stop ends."""
    session.execute(
        update(Replica)
        .where(Replica.job_id == job.id, Replica.state.in_([state for state in ReplicaState if not state.ended]))
        .values(state=ReplicaState.STOPPED, finished_at=now())
    )


def _write(session: Session, job_id: str, reports: list[ReplicaReport]) -> None:
    if not reports:
        return
    session.execute(
        _UPSERT_REPLICA,
        [
            {
                "job_id": job_id,
                "role": report.role,
                "index": report.index,
                "attempt": report.attempt,
                "state": report.state,
                "reason": report.reason,
                "exit_code": report.exit_code,
                "diagnostics": report.diagnostics.replace("\0", ""),
                "started_at": report.started_at,
                "finished_at": report.finished_at,
                "container_id": report.container_id,
                "host_ip": report.host_ip,
                "pod_name": report.pod_name,
                "pod_uid": report.pod_uid,
                "pod_ip": report.pod_ip,
            }
            for report in reports
        ],
    )


def unheard(older_than: datetime, limit: int) -> list[str]:
    """Launched jobs that were not heard of since that time, the longest unheard first."""
    with transaction() as session:
        return list(
            session.execute(
                select(Job.id)
                .where(Job.stage == Stage.CLUSTER, Job.finished_at.is_(None), Job.heard_at < older_than)
                .order_by(Job.heard_at)
                .limit(limit)
            ).scalars()
        )
