"""Submission: a job is checked as a whole, then stored with its first event and its first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_job_id
from pipeline_core.database import again_if_contended, transaction, wakeups
from pipeline_core.database.engine import to_json
from pipeline_core.database.models import IdempotencyKey
from pipeline_core.errors import Conflict, Forbidden, MissingParameter
from pipeline_core.features import snapshot
from pipeline_core.jobs import lifecycle
from pipeline_core.settings import settings
from pipeline_core.stages.stage import STAGES, next_of
from pipeline_core.stages.tasksets import check_submitted
from pipeline_core.states import JobState
from pipeline_core.taskset import document, schema
from pipeline_core.taskset.schema import allowed_namespace
from pipeline_core.validation.body import Body
from pipeline_core.validation.texts import shown

MAX_TEXT = 255
MAX_HEADER_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A job that was checked and may be stored. `namespace` is where its pods will run, as far as is known yet."""

    user_id: str
    name: str
    kind: str
    header: Mapping[str, Any]
    job: Mapping[str, Any]
    namespace: str

    @classmethod
    def parse(cls, raw: object) -> Submission:
        """Check the body of a submission: any JSON value.

        Raises MissingParameter when something required is missing or empty, WrongParameter for anything else; both
        name every field at fault.
        """
        body = Body.of(raw)
        user_id = body.text("userID", required=True, check=_name_fault)
        name = body.text("jobName", required=True, check=_name_fault)
        kind = body.text("jobKind", required=True, check=_name_fault)
        namespace = body.text("jobNameSpace", check=_name_fault)
        body.text("cluster", check=_cluster_fault)
        header = _object(body, "header")
        if header and len(to_json(header).encode()) > MAX_HEADER_BYTES:
            body.add_error("header", f"must be at most {MAX_HEADER_BYTES // 1024} KiB")
        job = _object(body, "job", required=True)
        if job:
            _check_kind(body, job, kind)
        body.finish()
        return cls(
            user_id=user_id,
            name=name,
            kind=kind,
            header=header,
            job=job,
            namespace=_namespace(job, namespace),
        )

    @classmethod
    def of_taskset(
        cls, taskset: Mapping[str, Any], *, user_id: str, name: str, header: Mapping[str, Any]
    ) -> Submission:
        """A job of the service's own, of a TaskSet that keeps to the schema, in the default namespace.

        Raises WrongParameter when this installation does not run such a one.
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

    def require_user(self, actor: Actor) -> None:
        """Raises Forbidden when the actor may not submit for this user."""
        if not actor.sees(self.user_id):
            raise Forbidden(f'This token may submit for "{actor.name}" only, not for userID "{self.user_id}".')


def _name_fault(text: str) -> str | None:
    if len(text) > MAX_TEXT:
        return f"must have at most {MAX_TEXT} characters, not {len(text)}"
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        return "must not contain control characters"
    if text.isspace():
        return "must not be blank"
    return None


def _cluster_fault(text: str) -> str | None:
    return None if text == (own := settings().cluster_name) else f'must be "{own}", the cluster of this installation'


def _object(body: Body, name: str, *, required: bool = False) -> dict[str, Any]:
    value = body.value(name, required=required)
    if value is not None and not isinstance(value, dict):
        body.add_error(name, f"must be an object, not {shown(value)}")
    return value if isinstance(value, dict) else {}


def _check_kind(body: Body, job: Mapping[str, Any], kind: str) -> None:
    own = job.get("kind")
    if own in (None, "", {}, []):
        body.add_error(("job", "kind"), "is required and may not be empty", MissingParameter)
    elif own != kind and kind:
        body.add_error(("job", "kind"), f"must be equal to jobKind, {shown(kind)}, not {shown(own)}")


def _namespace(job: Mapping[str, Any], named: str) -> str:
    chosen: str | None = named
    if job["kind"] == document.KIND:
        schema.check(job)
        schema.check_size(job)
        check_submitted(job)
        chosen = document.namespace(job) or named
    return allowed_namespace(chosen or settings().namespaces[0], "jobNameSpace")


@again_if_contended
def submit(
    submission: Submission,
    actor: Actor,
    *,
    idempotency_key: str | None = None,
    raw_hash: str = "",
    retry_of: str | None = None,
) -> str:
    """Store the job, with its first event and its first step, in one transaction; its ID.

    The same `idempotency_key` of the same token gives the ID of the job that it first gave, and stores nothing; it
    raises Conflict when `raw_hash`, a digest of the request's body, is another. Raises Forbidden when the actor may
    not submit for this user.
    """
    submission.require_user(actor)
    job_id = new_job_id(now())
    with transaction() as session:
        if idempotency_key:
            earlier = _claim_key(session, actor.token_id or actor.name, idempotency_key, raw_hash, job_id)
            if earlier:
                return earlier
        store(session, submission, actor, job_id=job_id, retry_of=retry_of)
    return job_id


def store(
    session: Session,
    submission: Submission,
    actor: Actor,
    *,
    job_id: str,
    retry_of: str | None = None,
    run_id: str | None = None,
) -> None:
    """Store the job, with its first event and its first step, in the caller's transaction.

    `job_id` is a new one, and `run_id` the run of a flow that the job is a task of.
    """
    moment = now()
    header = submission.header_of(job_id)
    # A stage that nothing matches costs nothing, the first one too.
    stage = next_of(STAGES, snapshot.current(session), submission.kind, header)
    lifecycle.create(
        session,
        {
            "id": job_id,
            "user_id": submission.user_id,
            "name": submission.name,
            "kind": submission.kind,
            "namespace": submission.namespace,
            "state": JobState.WAITING,
            "stage": stage,
            "reason": "",
            "created_at": moment,
            "retry_of": retry_of,
            "run_id": run_id,
            "submitted_by": actor.name,
            "request_id": actor.request_id,
        },
        {
            "header": header,
            "submitted": submission.job,
            "taskset": document.named(submission.job, job_id, submission.namespace) if submission.is_taskset else None,
            "factors": {},
        },
        actor=actor.name,
        moment=moment,
    )
    wakeups.after_commit(session, wakeups.StepDue(job_id, 0, stage))


def _claim_key(session: Session, token_id: str, key: str, raw_hash: str, job_id: str) -> str | None:
    """Take the key for this job; the ID of the job that has it already, if one has."""
    taken = session.execute(
        insert(IdempotencyKey)
        .values(token_id=token_id, key=key, body_hash=raw_hash, job_id=job_id, created_at=now())
        .on_conflict_do_nothing()
        .returning(IdempotencyKey.job_id)
    ).scalar_one_or_none()
    if taken:
        return None
    earlier = session.execute(
        select(IdempotencyKey.body_hash, IdempotencyKey.job_id).where(
            IdempotencyKey.token_id == token_id, IdempotencyKey.key == key
        )
    ).one()
    if earlier.body_hash != raw_hash:
        raise Conflict(f'The Idempotency-Key "{key}" was used with another body, for the job {earlier.job_id}.')
    return str(earlier.job_id)
