"""Stop, resume and retry: what a user, or the time-out of a suspension, does to a job.

Each is one transaction on the job's locked row: when two run at once, the second raises Conflict.
"""

from __future__ import annotations

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from pipeline_core.auth import audit
from pipeline_core.auth.actor import SYSTEM, Actor
from pipeline_core.auth.idempotency import RepeatableRequest
from pipeline_core.auth.privileges import Privilege
from pipeline_core.common import tracing
from pipeline_core.common.clock import now
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.models import Job, JobDocument, TrailRow
from pipeline_core.errors import Conflict, Forbidden, NotFound
from pipeline_core.jobs import lifecycle, rollup, trail_rows
from pipeline_core.jobs.submission import Submission, submit
from pipeline_core.plugins.answers import OnTimeout
from pipeline_core.plugins.types import Resumer
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailOutcome
from pipeline_core.states import JobState
from pipeline_core.validation.texts import shown

TIMED_OUT = Job.suspended_until <= func.now()
"""Whether the suspension of a job has timed out."""


def _lock_visible(session: Session, job_id: str, actor: Actor) -> Job:
    job = lifecycle.lock(session, job_id)
    if not actor.sees(job.user_id):
        raise NotFound(f"There is no job {shown(job_id)}.")
    return job


@again_if_contended
def stop(job_id: str, actor: Actor, *, reason: str = "") -> None:
    """Stop a job that has not ended. Does nothing when it is stopped already.

    What runs in the cluster is stopped after this returns. Raises NotFound; Conflict for a job that succeeded or failed.
    """
    with transaction() as session:
        job = _lock_visible(session, job_id, actor)
        if job.state == JobState.STOPPED:
            return
        if JobState(job.state).final:
            raise Conflict(f"The job {job_id} has {job.state}; only one that has not ended can be stopped.")
        before = job.state
        tracing.link(job.traceparent)
        lifecycle.transition(
            session, job, JobState.STOPPED, reason=reason or f"stopped by {actor.name}", actor=actor.name
        )
        rollup.stop_replicas(session, job)
        audit.record(
            session,
            actor,
            audit.Action.JOB_STOP,
            job_id,
            reason=reason,
            before={"state": before},
            after={"state": job.state},
        )
        wakeups.after_commit(session, wakeups.CleanupDue(job_id))


@again_if_contended
def resume(job_id: str, actor: Actor, *, reason: str = "", gate: str | None = None, ask_again: bool = False) -> None:
    """Resume a suspended job: it continues with the next gate that has not answered, or with the plugin that failed.

    `gate`, if given, must be the key of the plugin that suspended the job. With `ask_again` the gate that suspended it is
    called again. Raises NotFound; Conflict when the job is not suspended, or not by this gate; Forbidden when the actor may
    not resume past the gate that suspended it.
    """
    with transaction() as session:
        job = _lock_visible(session, job_id, actor)
        if job.state != JobState.SUSPENDED:
            raise Conflict(f"The job {job_id} is {job.state}, not suspended.")
        _require_may_resume(job, actor)
        if gate and gate != job.suspended_by:
            raise Conflict(f'The job {job_id} was suspended by "{job.suspended_by}", not by {shown(gate)}.')
        moment = now()
        session.execute(
            insert(TrailRow).values(
                job_id=job_id,
                epoch=job.epoch,
                stage=job.stage,
                plugin_key=job.suspended_by,
                outcome=TrailOutcome.ASK_AGAIN if ask_again else TrailOutcome.RESUMED,
                started_at=moment,
                reason=reason,
                actor=actor.name,
            )
        )
        trail_rows.forget_oldest(session, job_id, job.stage, job.suspended_by)
        tracing.link(job.traceparent)
        parked_epoch, suspended_by, resumer = job.epoch, job.suspended_by, job.resumer
        job.epoch += 1
        lifecycle.transition(session, job, JobState.WAITING, reason=reason, actor=actor.name, moment=moment)
        lifecycle.enqueue_step(session, job, Stage(job.stage), moment)
        audit.record(
            session,
            actor,
            audit.Action.JOB_RESUME,
            job_id,
            reason=reason,
            before={"state": JobState.SUSPENDED, "suspendedBy": suspended_by, "resume": resumer},
            after={"state": job.state},
        )
        wakeups.after_commit(session, wakeups.StepDue(job_id, job.epoch, job.stage, parked_epoch))


def _require_may_resume(job: Job, actor: Actor) -> None:
    if job.resumer != Resumer.APPROVER:
        actor.require(Privilege.WRITE_JOB)
    elif not actor.may(Privilege.APPROVE_JOB) or (actor.name == job.user_id and not actor.admin):
        raise Forbidden(
            f"The job {job.id} was suspended by {job.suspended_by}, which lets only an approver resume it: a token with "
            f"{Privilege.APPROVE_JOB} that is not the one of the job's user, {shown(job.user_id)}."
        )


def retry(job_id: str, actor: Actor, repeatable: RepeatableRequest | None = None) -> str:
    """Submit a failed or stopped job again, as a new job. Returns the new job's ID, or that of the job that the same
    `repeatable` request made before. Raises NotFound, Conflict."""
    with transaction() as session:
        job = session.get(Job, job_id)
        if job is None or not actor.sees(job.user_id):
            raise NotFound(f"There is no job {shown(job_id)}.")
        if job.state not in (JobState.FAILED, JobState.STOPPED):
            raise Conflict(f"The job {job_id} is {job.state}; only one that failed or was stopped can be retried.")
        document = session.execute(select(JobDocument).where(JobDocument.job_id == job_id)).scalar_one()
    submission = Submission.of_job(
        document.submitted,
        user_id=job.user_id,
        name=job.name,
        kind=job.kind,
        header=document.header,
        namespace=job.namespace,
    )
    return submit(submission, actor, repeatable=repeatable, retry_of=job_id)


def due_suspensions(limit: int) -> list[str]:
    """Jobs whose suspension has timed out."""
    with transaction() as session:
        return list(
            session.execute(select(Job.id).where(TIMED_OUT).order_by(Job.suspended_until).limit(limit)).scalars()
        )


def end_suspension(job_id: str) -> None:
    """End a suspension that has timed out, as its `on_timeout` says. Does nothing when it has ended already."""
    with transaction() as session:
        found = session.execute(
            select(Job.on_timeout, Job.suspended_by).where(Job.id == job_id, TIMED_OUT)
        ).one_or_none()
    if found is None:
        return
    gate = found.suspended_by
    try:
        match found.on_timeout:
            case OnTimeout.STOP:
                stop(job_id, SYSTEM, reason=f"the suspension by {gate} has timed out")
            case OnTimeout.RESUME:
                resume(job_id, SYSTEM, reason=f"the suspension by {gate} has timed out", gate=gate)
            case _:
                resume(job_id, SYSTEM, reason=f"{gate} asked to be called again", gate=gate, ask_again=True)
    except (Conflict, NotFound):
        return
