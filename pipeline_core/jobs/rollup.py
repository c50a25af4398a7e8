"""The roll-up: derive the states of roles and of the job from what a cluster reports of replicas, and write them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import ColumnElement, and_, delete, select, update
from sqlalchemy.orm import Session

from pipeline_core.clusters.base import LaunchRequest, Observation, ReplicaKey, ReplicaReport, StillEnding
from pipeline_core.clusters.factory import cluster
from pipeline_core.common import failpoints, tracing
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import again_if_contended, log_lines, transaction, wakeups
from pipeline_core.database.models import Cleanup, Job, JobDocument, Replica, table
from pipeline_core.jobs import changes, feed_changes, lifecycle, replicas
from pipeline_core.jobs.replicas import KnownReplicas, Reports
from pipeline_core.stages.names import Stage
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.taskset.document import retry_policy
from pipeline_core.taskset.document import roles as roles_of
from pipeline_core.taskset.rollup import RollUp, roll_up

log = structlog.get_logger(__name__)

_DOCUMENT = table(JobDocument)

OBSERVED = (Stage.LAUNCH, Stage.CLUSTER)
"""Stages in which a job may have replicas."""

MAX_WAITING_TEXT = 500
"""Characters of a replica's message in the reason of a waiting job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What follows for a job from its replicas.

    `state` is the final state that it reaches, None while it continues; with `next_attempt` the whole TaskSet is launched again
    instead of failing. `started_at` is the first start of a replica, `finished_at` the last end. `unneeded` are replicas that a
    role no longer needs because its verdict is final. `retry_at` is when the next retry of a replica is due. `waits_for` is why
    a replica waits while none runs.
    """

    state: JobState | None = None
    next_attempt: bool = False
    reason: str = ""
    exit_code: int | None = None
    exit_diagnostics: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    retry_at: datetime | None = None
    unneeded: tuple[ReplicaKey, ...] = ()
    waits_for: str = ""


def decide(document: Mapping[str, Any], reports: Reports, result: RollUp, attempt: int) -> Decision:
    """What follows for a job in its job attempt `attempt`, from its TaskSet and the roll-up of its replicas."""
    started_at = min((report.started_at for report in reports.values() if report.started_at), default=None)
    unneeded = tuple(
        ReplicaKey(role, index, reports[role, index].attempt)
        for role, index in sorted(result.stop)
        if (role, index) in reports
    )
    if result.verdict is None:
        retry_at = replicas.next_retry_at(document, reports, result.roles)
        waits_for = waiting_reason(document, reports.values())
        return Decision(started_at=started_at, retry_at=retry_at, unneeded=unneeded, waits_for=waits_for)
    state = JobState(result.verdict.state.value)
    failed = first_failed(document, reports.values())
    next_attempt = state is JobState.FAILED and retry_policy(document).allows(attempt)
    return Decision(
        state=state,
        next_attempt=next_attempt,
        reason=_failure_reason(failed) if state is JobState.FAILED else "",
        exit_code=0 if state is JobState.SUCCEEDED else failed.exit_code if failed else None,
        exit_diagnostics=failed.diagnostics if failed and state is JobState.FAILED else "",
        started_at=started_at,
        finished_at=max((report.finished_at for report in reports.values() if report.finished_at), default=None),
        # A job that ends is cleaned up as a whole.
        unneeded=unneeded if next_attempt else (),
    )


def first_failed(document: Mapping[str, Any], reports: Iterable[ReplicaReport]) -> ReplicaReport | None:
    """The first failed replica by the order of roles and by index: the job takes over its exit code and diagnostics."""
    return _first(document, (report for report in reports if report.state is ReplicaState.FAILED))


def waiting_reason(document: Mapping[str, Any], reports: Collection[ReplicaReport]) -> str:
    """Why the first replica that says so waits, for the job; empty when a replica runs."""
    if any(report.state is ReplicaState.RUNNING for report in reports):
        return ""
    waiting = _first(document, (one for one in reports if one.state is ReplicaState.WAITING and one.reason))
    if waiting is None:
        return ""
    why = f": {waiting.diagnostics[:MAX_WAITING_TEXT]}" if waiting.diagnostics else ""
    return f"{waiting.role}-{waiting.index} waits: {waiting.reason}{why}"


def _first(document: Mapping[str, Any], reports: Iterable[ReplicaReport]) -> ReplicaReport | None:
    order = {role.name: place for place, role in enumerate(roles_of(document))}
    return min(reports, key=lambda report: (order.get(report.role, len(order)), report.index), default=None)


def _failure_reason(failed: ReplicaReport | None) -> str:
    if failed is None:
        return "too few replicas succeeded"
    code = "" if failed.exit_code is None else f", exit code {failed.exit_code}"
    return f"{failed.role}-{failed.index} failed: {failed.reason or 'Error'}{code}"


@again_if_contended
def observe(job_id: str) -> None:
    """Get an observation of a job from the cluster, and apply it. Harmless at any time, for any job.

    Raises ClusterUnavailable, Unavailable.
    """
    observation = cluster().observe(job_id)
    failpoints.reach(Point.CLUSTER_OBSERVED)
    with transaction() as session:
        job = session.execute(select(Job).where(Job.id == job_id).with_for_update(key_share=True)).scalar_one_or_none()
        if job is None:
            return
        if JobState(job.state).final and (job.cleanup == Cleanup.DONE or job.kept_until) and _is_running(observation):
            wakeups.after_commit(session, wakeups.CleanupDue(job_id))
            job.cleanup, job.kept_until = Cleanup.PENDING, None
        if JobState(job.state).final or job.stage not in OBSERVED:
            return
        if job.stage == Stage.LAUNCH:
            if observation is not None and observation.attempt == job.attempt:
                _note_early(session, {job.id: observation}, [job])
            return
        document = session.execute(select(JobDocument.taskset).where(JobDocument.job_id == job_id)).scalar_one() or {}
        if observation is None:
            observation = _lost(session, job)
        unneeded: tuple[ReplicaKey, ...] = ()
        if observation.attempt == job.attempt:
            job.last_observed_at = now()
            unneeded = apply(session, [Observed(job, document, observation)]).get(job_id, ())
        missing = replicas.missing_attempts(session, job, observation) if job.retried else None
    if unneeded:
        cluster().delete(job_id, unneeded)
    if missing:
        # The worker that began these replica attempts died before it launched them, or earlier ones had not ended yet.
        _launch_retries(missing)


def _is_running(observation: Observation | None) -> bool:
    """Whether something of an ended job runs: a late launch whose worker died before it noticed that the job was stopped."""
    return observation is not None and any(not replica.state.ended for replica in observation.replicas)


def _lost(session: Session, job: Job) -> Observation:
    """The observation of a job that is missing in the cluster: its replicas were deleted there by someone else."""
    reports = replicas.read(session, [job.id])[job.id].reports
    return Observation(
        job.id,
        job.attempt,
        tuple(
            report
            if report.state.ended
            else replace(report, state=ReplicaState.FAILED, reason="PodDeleted", finished_at=now())
            for report in reports.values()
        ),
    )


def apply_cached_observations(job_ids: Collection[str]) -> list[str]:
    """Apply what the cluster's watch has cached of these jobs. Returns the jobs without a cached observation, to be observed.

    Uses one transaction for all: a roll-up is cheap compared to a transaction. Raises ClusterUnavailable, Unavailable.
    """
    cached = {job_id: found for job_id in job_ids if (found := cluster().cached_observation(job_id))}
    if cached:
        for job_id, unneeded in _apply_all(cached).items():
            cluster().delete(job_id, unneeded)
    return [job_id for job_id in job_ids if job_id not in cached]


@again_if_contended
def _apply_all(observations: Mapping[str, Observation]) -> dict[str, tuple[ReplicaKey, ...]]:
    """Apply observations of many jobs. Returns the unneeded replicas of each.

    Does not change `last_observed_at` of jobs in the cluster, so that the reconcile tick still finds what a watch has missed.
    """
    with transaction() as session:
        launched = (
            select(Job)
            .where(Job.id.in_(observations), Job.stage.in_(OBSERVED), Job.finished_at.is_(None))
            .order_by(Job.id)
            .with_for_update(key_share=True)
        )
        current = [job for job in session.scalars(launched) if job.attempt == observations[job.id].attempt]
        _note_early(session, observations, [job for job in current if job.stage == Stage.LAUNCH])
        jobs = [job for job in current if job.stage == Stage.CLUSTER]
        known = replicas.read(session, [job.id for job in jobs]) if jobs else {}
        changed = {job.id: reports for job in jobs if (reports := known[job.id].merge(observations[job.id]))}
        query = select(JobDocument.job_id, JobDocument.taskset).where(JobDocument.job_id.in_(changed))
        documents = {row.job_id: row.taskset or {} for row in session.execute(query)}
        observed = [Observed(job, documents[job.id], observations[job.id]) for job in jobs if job.id in changed]
        return _write(session, observed, known, changed)


def _note_early(session: Session, observations: Mapping[str, Observation], jobs: Sequence[Job]) -> None:
    """Write what is observed of jobs whose launch is not written yet. The observation of the launch, which may be older, is
    merged with it, since `last_observed_at` says that there is something to merge with."""
    if not jobs:
        return
    for job in jobs:
        job.last_observed_at = now()
    known = replicas.read(session, [job.id for job in jobs])
    replicas.write(session, [(job, known[job.id].merge(observations[job.id])) for job in jobs])
    platforms = {job.id: known[job.id].newer_platform(observations[job.id]) for job in jobs}
    replicas.write_documents(session, {job_id: {"platform": dict(new)} for job_id, new in platforms.items() if new})


@dataclass(frozen=True, slots=True)
class Observed:
    """A locked job, its TaskSet, and what was observed of it; its header, if that is known."""

    job: Job
    document: Mapping[str, Any]
    observation: Observation
    header: Mapping[str, Any] | None = None


def apply(
    session: Session, observed: Sequence[Observed], *, are_first: bool = False
) -> dict[str, tuple[ReplicaKey, ...]]:
    """Write observations of jobs, with the states that follow from them. The jobs are locked, unless the observations
    `are_first`: nothing was observed of the jobs before.

    Returns the unneeded replicas of each job that has some, for the caller to delete once the transaction has committed.
    """
    job_ids = [each.job.id for each in observed]
    known = (
        {job_id: KnownReplicas({}, None, {}) for job_id in job_ids} if are_first else replicas.read(session, job_ids)
    )
    changed = {each.job.id: known[each.job.id].merge(each.observation) for each in observed}
    return _write(session, observed, known, changed)


def _write(
    session: Session,
    observed: Sequence[Observed],
    known: Mapping[str, KnownReplicas],
    changed: Mapping[str, Collection[ReplicaReport]],
) -> dict[str, tuple[ReplicaKey, ...]]:
    """Write the `changed` replicas of jobs, which `known` has already, with the states that follow. Returns as `apply`."""
    replicas.write(session, [(each.job, changed[each.job.id]) for each in observed])
    results = {each.job.id: _roll_up(each.document, known[each.job.id]) for each in observed}
    replicas.write_documents(
        session,
        {each.job.id: _changes(known[each.job.id], results[each.job.id], each.observation) for each in observed},
    )
    unneeded = {}
    # All jobs are written at the end, together.
    with session.no_autoflush:
        for each in observed:
            reports = known[each.job.id].reports
            decision = decide(each.document, reports, results[each.job.id], each.job.attempt)
            _write_decision(session, each, decision, reports)
            if decision.unneeded:
                unneeded[each.job.id] = decision.unneeded
    return unneeded


def _changes(known: KnownReplicas, result: RollUp, observation: Observation) -> dict[str, Any]:
    """Which columns of the job's documents the observation changes: `roles`, `platform`, both or none."""
    platform = known.newer_platform(observation)
    return {
        **({"roles": dict(result.roles)} if result.roles != known.roles else {}),
        **({"platform": dict(platform)} if platform else {}),
    }


def _roll_up(document: Mapping[str, Any], known: KnownReplicas) -> RollUp:
    roles = roles_of(document)
    states = {
        role.name: [replicas.counted(role, known.reports.get((role.name, index))) for index in range(role.replicas)]
        for role in roles
    }
    return roll_up(roles, states, known.roles)


def _write_decision(session: Session, observed: Observed, decision: Decision, reports: Reports) -> None:
    job, header = observed.job, observed.header
    if decision.started_at and job.state == JobState.WAITING:
        lifecycle.transition(session, job, JobState.RUNNING, reason="", header=header)
        job.started_at = decision.started_at
    job.retry_at = decision.retry_at
    if decision.state is None:
        job.reason = decision.waits_for
        return
    if decision.next_attempt:
        _enqueue_next_attempt(session, job, observed.document, decision.reason)
        return
    job.exit_code = decision.exit_code
    job.exit_diagnostics = decision.exit_diagnostics
    lifecycle.transition(session, job, decision.state, reason=decision.reason, header=header)
    job.finished_at = decision.finished_at or job.finished_at
    if decision.state is JobState.SUCCEEDED and observed.observation.cleared:
        job.cleanup = Cleanup.DONE
    else:
        wakeups.after_commit(session, wakeups.CleanupDue(job.id))
    if not all(report.state.ended for report in reports.values()):
        stop_replicas(session, job)


def _enqueue_next_attempt(session: Session, job: Job, document: Mapping[str, Any], reason: str) -> None:
    """Enqueue another launch of the whole TaskSet, after the delay of its retry policy. The job keeps its state meanwhile."""
    delay = retry_policy(document).delay
    job.attempt += 1
    job.retried += 1
    job.stage = Stage.LAUNCH
    job.reason = f"Attempt {job.attempt} failed ({reason}); the next one begins after {delay:g} s."
    failed = {"reason": job.reason, **tracing.log_fields(job.traceparent)}
    log_lines.note(session, "job attempt failed", job_id=job.id, request_id=job.request_id, **failed)
    stop_replicas(session, job)
    feed_changes.note_stage(session, job, now())
    lifecycle.enqueue_step(session, job, Stage.LAUNCH, now(), delay=delay)


def retry_replicas(job_id: str) -> None:
    """Launch the replica attempts of a job that are due. Raises ClusterUnavailable, Unavailable."""
    launch = replicas.begin_retries(job_id)
    if launch is not None:
        _launch_retries(launch)
        observe(job_id)


def _launch_retries(request: LaunchRequest) -> None:
    """Launch replica attempts. Those whose earlier attempt has not ended yet are launched by a later observation."""
    try:
        cluster().launch(request)
    except StillEnding as error:
        log.info("retry waits", job_id=request.job_id, reason=error.message)


def delete_earlier_replicas(session: Session, job: Job) -> None:
    """Delete the rows of earlier job attempts, and the states of roles that follow from them."""
    session.execute(delete(Replica).where(Replica.job_id == job.id, Replica.job_attempt != job.attempt))
    session.execute(update(_DOCUMENT).where(_DOCUMENT.c.job_id == job.id).values(roles=None))


def stop_replicas(session: Session, job: Job) -> None:
    """Mark the replicas that have not ended as stopped."""
    moment = now()
    if gathered := changes.gathered(session):
        gathered.stop_replicas(job.id, moment)
        if not gathered.are_locked:
            return
    session.execute(
        update(Replica)
        .where(Replica.job_id == job.id, Replica.state.in_([state for state in ReplicaState if not state.ended]))
        .values(state=ReplicaState.STOPPED, finished_at=moment)
    )


def is_stale(older_than: datetime | ColumnElement[datetime]) -> ColumnElement[bool]:
    """Whether a job is launched and was last observed before that time."""
    return and_(Job.stage == Stage.CLUSTER, Job.finished_at.is_(None), Job.last_observed_at < older_than)


def stale(older_than: datetime, limit: int) -> list[str]:
    """Launched jobs that were last observed before that time, oldest observation first."""
    with transaction() as session:
        return list(
            session.execute(
                select(Job.id).where(is_stale(older_than)).order_by(Job.last_observed_at).limit(limit)
            ).scalars()
        )
