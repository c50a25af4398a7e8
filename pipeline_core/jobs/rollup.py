"""From what the cluster says to what the job is: replicas, roles, the verdict, and the events that follow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from pipeline_core.clusters.base import Observation, ReplicaKey, ReplicaReport
from pipeline_core.clusters.factory import cluster
from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import Cleanup, Job, JobDocument, Replica, table
from pipeline_core.jobs import lifecycle, replicas, retries
from pipeline_core.jobs.replicas import Record
from pipeline_core.stages.order import Stage
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.taskset.document import retry_policy
from pipeline_core.taskset.document import roles as roles_of
from pipeline_core.taskset.rollup import RollUp, roll_up

_DOCUMENT = table(JobDocument)


@again_if_contended
def observe(job_id: str) -> None:
    """Ask the cluster how a job fares, and write down what it says. Harmless at any time, for any job.

    Raises ClusterUnavailable, Unavailable.
    """
    observation = cluster().observe(job_id)
    failpoints.reach(Point.CLUSTER_OBSERVED)
    with transaction() as session:
        job = session.execute(select(Job).where(Job.id == job_id).with_for_update(key_share=True)).scalar_one_or_none()
        if job is None:
            return
        if JobState(job.state).final and (job.cleanup == Cleanup.DONE or job.kept_until) and _runs(observation):
            wakeups.after_commit(session, wakeups.CleanupDue(job_id))
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


def take_in(job_ids: Collection[str]) -> list[str]:
    """Write down what the cluster's watch has told of these jobs; those of them that have to be observed.

    All in one transaction: a roll-up costs little, and a transaction much. Raises ClusterUnavailable, Unavailable.
    """
    told = {job_id: found for job_id in job_ids if (found := cluster().cached_observation(job_id))}
    if told:
        for job_id, needless in _write_down(told).items():
            cluster().delete(job_id, needless)
    return [job_id for job_id in job_ids if job_id not in told]


@again_if_contended
def _write_down(told: Mapping[str, Observation]) -> dict[str, tuple[ReplicaKey, ...]]:
    """Observations of many jobs; the replicas of each that are needed no more.

    None of the jobs counts as heard of: what the watch does not tell, the reconcile asks for all the same.
    """
    with transaction() as session:
        running = (
            select(Job)
            .where(Job.id.in_(told), Job.stage == Stage.CLUSTER, Job.finished_at.is_(None))
            .order_by(Job.id)
            .with_for_update(key_share=True)
        )
        jobs = [job for job in session.scalars(running) if job.attempt == told[job.id].attempt]
        found = replicas.read(session, [job.id for job in jobs]) if jobs else {}
        changed = {job.id: reports for job in jobs if (reports := found[job.id].take(told[job.id]))}
        replicas.write(session, changed)
        query = select(JobDocument.job_id, JobDocument.taskset).where(JobDocument.job_id.in_(changed))
        documents = {row.job_id: row.taskset or {} for row in session.execute(query)}
        results = {
            job_id: _roll_up(document, found[job_id].known, found[job_id].roles)
            for job_id, document in documents.items()
        }
        replicas.write_documents(
            session, {job_id: _changes(found[job_id], result, told[job_id]) for job_id, result in results.items()}
        )
        # All jobs are written at the end, together.
        with session.no_autoflush:
            return {
                job.id: needless
                for job in jobs
                if job.id in changed
                and (
                    needless := _judge(
                        session, job, documents[job.id], found[job.id].known, results[job.id], None, False
                    )
                )
            }


def try_replicas_again(job_id: str) -> None:
    """Launch the tries of a job's replicas that are due. Raises ClusterUnavailable, Unavailable."""
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
    known = replicas.read(session, [job.id])[job.id].known
    return Observation(
        job.id,
        job.attempt,
        tuple(
            replace(report, state=ReplicaState.FAILED, reason="PodDeleted", finished_at=now())
            if not report.state.ended
            else report
            for report in known.values()
        ),
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
    record = replicas.read(session, [job.id])[job.id]
    replicas.write(session, {job.id: record.take(observation)})
    result = _roll_up(document, record.known, record.roles)
    replicas.write_documents(session, {job.id: _changes(record, result, observation)})
    return _judge(session, job, document, record.known, result, header, observation.cleared)


def _changes(record: Record, result: RollUp, observation: Observation) -> dict[str, Any]:
    """What is new beside the replicas."""
    return {
        **({"roles": dict(result.roles)} if result.roles != record.roles else {}),
        **({"platform": dict(observation.platform)} if observation.platform not in ({}, record.platform) else {}),
    }


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
        wakeups.after_commit(session, wakeups.CleanupDue(job.id))
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
