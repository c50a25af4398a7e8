"""Submission: check a job as a whole, then store it with its first event and its first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from pipeline_core.auth import idempotency
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.idempotency import RepeatableRequest
from pipeline_core.common import tracing
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_job_id
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.jobs import lifecycle
from pipeline_core.jobs.lifecycle import NewJob
from pipeline_core.settings import settings
from pipeline_core.stages.choice import next_of
from pipeline_core.stages.names import STAGES
from pipeline_core.stages.tasksets import check_submitted
from pipeline_core.taskset import document, schema
from pipeline_core.taskset.schema import allowed_namespace


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A job that was checked and may be stored. Its pods run in `namespace`, unless a translator names another."""

    user_id: str
    name: str
    kind: str
    header: Mapping[str, Any]
    job: Mapping[str, Any]
    namespace: str

    @classmethod
    def of_job(
        cls,
        job: Mapping[str, Any],
        *,
        user_id: str,
        name: str,
        kind: str,
        header: Mapping[str, Any],
        namespace: str = "",
    ) -> Submission:
        """A job of that kind, whose fields were checked each for itself. The job's own `metadata.namespace` comes before
        `namespace`; without any, it is this installation's first.

        Raises WrongParameter for a TaskSet that cannot run here, and for a namespace that is not configured, also where a
        translator is still to read it.
        """
        return cls(
            user_id=user_id, name=name, kind=kind, header=header, job=job, namespace=_namespace(job, kind, namespace)
        )

    @classmethod
    def of_taskset(
        cls, taskset: Mapping[str, Any], *, user_id: str, name: str, header: Mapping[str, Any]
    ) -> Submission:
        """A job that the service itself submits, from a TaskSet that conforms to the schema, in the default namespace.

        Raises WrongParameter when this installation does not run such a TaskSet.
        """
        schema.check_size(taskset)
        check_submitted(taskset)
        return cls(
            user_id=user_id,
            name=name,
            kind=document.KIND,
            header=header,
            job=taskset,
            namespace=settings().namespaces[0],
        )

    @property
    def is_taskset(self) -> bool:
        """Whether the job needs no translation."""
        return self.kind == document.KIND

    def header_of(self, job_id: str) -> dict[str, Any]:
        """The header that selectors and plugins see when the job has this ID."""
        return {
            **self.header,
            "userID": self.user_id,
            "jobName": self.name,
            "jobKind": self.kind,
            "jobID": job_id,
        }


def _namespace(job: Mapping[str, Any], kind: str, named: str) -> str:
    if kind == document.KIND:
        schema.check_size(job)
        schema.check(job)
        check_submitted(job)
    metadata = job.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    if own and isinstance(own, str):
        return allowed_namespace(own, "metadata.namespace")
    return allowed_namespace(named or settings().namespaces[0], "jobNameSpace")


@again_if_contended
def submit(
    submission: Submission,
    actor: Actor,
    *,
    repeatable: RepeatableRequest | None = None,
    retry_of: str | None = None,
) -> str:
    """Store the job, with its first event and its first step, in one transaction. Returns its ID.

    When the request is `repeatable` and was sent before, returns the ID of the job that it made, and stores nothing; raises
    Conflict when another one had the same key. Raises Forbidden when the actor may not submit for this user.
    """
    actor.require_may_submit_for(submission.user_id)
    job_id = new_job_id(now())
    new = _new(submission, actor, job_id=job_id, retry_of=retry_of, traceparent=tracing.current())
    if repeatable is None and (stage := lifecycle.create_alone(new)):
        wakeups.publish([wakeups.StepDue(job_id, 0, stage)])
        return job_id
    with transaction() as session:
        if earlier := idempotency.claim(session, actor, repeatable, job_id):
            return earlier
        _store(session, new)
    return job_id


def store(
    session: Session,
    submission: Submission,
    actor: Actor,
    *,
    job_id: str,
    run_id: str | None = None,
    traceparent: str = "",
) -> None:
    """Store the job, with its first event and its first step, in the caller's transaction.

    `job_id` is a new ID, `run_id` the run of a flow that the job is a task of, and `traceparent` the context of the job's trace,
    or empty.
    """
    _store(session, _new(submission, actor, job_id=job_id, run_id=run_id, traceparent=traceparent))


def _store(session: Session, new: NewJob) -> None:
    stage = lifecycle.create(session, new)
    wakeups.after_commit(session, wakeups.StepDue(new.id, 0, stage))


def _new(
    submission: Submission,
    actor: Actor,
    *,
    job_id: str,
    traceparent: str,
    retry_of: str | None = None,
    run_id: str | None = None,
) -> NewJob:
    header = submission.header_of(job_id)
    return NewJob(
        id=job_id,
        user_id=submission.user_id,
        name=submission.name,
        kind=submission.kind,
        namespace=submission.namespace,
        header=header,
        submitted=submission.job,
        taskset=document.named(submission.job, job_id, submission.namespace) if submission.is_taskset else None,
        # A stage without matching plugins is skipped, the first one too.
        first_stage=lambda plugins: next_of(STAGES, plugins, submission.kind, header),
        actor=actor.name,
        request_id=actor.request_id,
        moment=now(),
        retry_of=retry_of,
        run_id=run_id,
        traceparent=traceparent,
    )
