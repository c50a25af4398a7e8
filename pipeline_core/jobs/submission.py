"""Submitting: a job is checked as a whole, then stored with its first event and the step that it owes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core import taskset, wakeups
from pipeline_core.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.engine import to_json
from pipeline_core.database.models import IdempotencyKey, Job, JobDocument
from pipeline_core.errors import Conflict, Forbidden, MissingParameter, WrongParameter
from pipeline_core.jobs import lifecycle
from pipeline_core.jobs.ids import new_job_id
from pipeline_core.settings import settings
from pipeline_core.stages.order import Stage
from pipeline_core.states import JobState
from pipeline_core.tokens.actor import Actor

MAX_TEXT = 255
MAX_HEADER_BYTES = 64 * 1024
FIELDS = frozenset({"userID", "jobName", "jobKind", "header", "job", "jobNameSpace", "cluster"})


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
        if not isinstance(raw, dict):
            raise WrongParameter(f"The body must be a JSON object, not {_type_name(raw)}.")
        missing = [name for name in ("userID", "jobName", "jobKind", "job") if raw.get(name) in (None, "", {}, [])]
        job = raw.get("job")
        if isinstance(job, dict) and job and job.get("kind") in (None, "", {}, []):
            missing.append("job.kind")
        if missing:
            raise MissingParameter(
                f"Required and missing or empty: {', '.join(missing)}.",
                errors={name: ["is required"] for name in missing},
            )
        errors = _faults(raw)
        if errors:
            first, texts = next(iter(errors.items()))
            raise WrongParameter(f"{first} {texts[0]}", errors=errors)
        return cls(
            user_id=raw["userID"],
            name=raw["jobName"],
            kind=raw["jobKind"],
            header=raw.get("header") or {},
            job=raw["job"],
            namespace=_namespace(raw),
        )


def _type_name(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _faults(raw: Mapping[str, Any]) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {
        name: ["is not a field of a submission; there are: " + ", ".join(sorted(FIELDS))]
        for name in raw
        if name not in FIELDS
    }
    for name in ("userID", "jobName", "jobKind", "jobNameSpace", "cluster"):
        value = raw.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            errors[name] = [f"must be a text, not {_type_name(value)}"]
        elif len(value) > MAX_TEXT:
            errors[name] = [f"has {len(value)} characters; at most {MAX_TEXT} are allowed"]
        elif any(ord(character) < 0x20 or ord(character) == 0x7F for character in value):
            errors[name] = ["must not contain control characters"]
    header, job = raw.get("header"), raw["job"]
    if header is not None and not isinstance(header, dict):
        errors["header"] = [f"must be an object, not {_type_name(header)}"]
    elif header and len(to_json(header).encode()) > MAX_HEADER_BYTES:
        errors["header"] = [f"is larger than {MAX_HEADER_BYTES // 1024} KiB"]
    if not isinstance(job, dict):
        errors["job"] = [f"must be an object, not {_type_name(job)}"]
    elif not isinstance(job["kind"], str):
        errors["job.kind"] = [f"must be a text, not {_type_name(job['kind'])}"]
    elif "jobKind" not in errors and job["kind"] != raw["jobKind"]:
        errors["job.kind"] = [f'is "{job["kind"]}" while jobKind is "{raw["jobKind"]}"; they must be equal']
    if raw.get("cluster") not in (None, "", settings().cluster_name) and "cluster" not in errors:
        errors["cluster"] = [f'is "{raw["cluster"]}"; this installation has one cluster, "{settings().cluster_name}"']
    return errors


def _namespace(raw: Mapping[str, Any]) -> str:
    job = raw["job"]
    chosen = raw.get("jobNameSpace")
    if job["kind"] == taskset.KIND:
        taskset.check(job)
        taskset.check_size(job)
        chosen = taskset.namespace(job) or chosen
    return allowed_namespace(chosen or settings().namespaces[0])


def allowed_namespace(namespace: str) -> str:
    """The namespace, if jobs may run there. Raises WrongParameter, naming those that they may run in."""
    allowed = settings().namespaces
    if namespace not in allowed:
        raise WrongParameter(
            f'The namespace "{namespace}" is not one of those that jobs may run in: {", ".join(allowed)}.',
            errors={"jobNameSpace": [f"must be one of {', '.join(allowed)}"]},
        )
    return namespace


def submit(
    submission: Submission,
    actor: Actor,
    *,
    idempotency_key: str | None = None,
    raw_hash: str = "",
    retry_of: str | None = None,
) -> str:
    """Store the job, with its first event and the step that it owes, in one transaction; its ID.

    The same `idempotency_key` of the same token gives the ID of the job that it first gave, and stores nothing; it
    raises Conflict when `raw_hash`, a digest of the request's body, is another. Raises Forbidden when the actor may
    not submit for this user.
    """
    if not actor.sees(submission.user_id):
        raise Forbidden(f'This token may submit for "{actor.name}" only, not for userID "{submission.user_id}".')
    moment = now()
    job_id = new_job_id(moment)
    header = {
        **submission.header,
        "userID": submission.user_id,
        "jobName": submission.name,
        "jobKind": submission.kind,
        "jobID": job_id,
    }
    is_taskset = submission.kind == taskset.KIND
    with transaction() as session:
        if idempotency_key:
            earlier = _claim_key(session, actor.token_id or actor.name, idempotency_key, raw_hash, job_id)
            if earlier:
                return earlier
        job = Job(
            id=job_id,
            user_id=submission.user_id,
            name=submission.name,
            kind=submission.kind,
            namespace=submission.namespace,
            state=JobState.WAITING,
            stage=Stage.TRANSLATE,
            epoch=0,
            event_sequence=0,
            reason="",
            created_at=moment,
            retry_of=retry_of,
            submitted_by=actor.name,
            request_id=actor.request_id,
        )
        session.add(job)
        session.add(
            JobDocument(
                job_id=job_id,
                header=header,
                submitted=submission.job,
                taskset=taskset.named(submission.job, job_id, submission.namespace) if is_taskset else None,
                factors={},
            )
        )
        session.flush()
        lifecycle.record_event(session, job, header, previous="", actor=actor.name, moment=moment)
        lifecycle.owe_step(session, job, Stage.TRANSLATE, moment)
        wakeups.after_commit(session, wakeups.StepOwed(job_id, 0, Stage.TRANSLATE))
    return job_id


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
