"""Jobs: state, documents, the pending step, plugin calls, replicas and results."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, ForeignKey, Index, PrimaryKeyConstraint, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline_core.database.models.base import Base, Document, Id, Serial, Timestamp


class Cleanup(StrEnum):
    """How far the cluster has been cleaned up after a job's end."""

    PENDING = "pending"
    DONE = "done"


class Job(Base):
    """One row per job, with all that a list shows and a transition needs; its documents are in `job_documents`.

    `epoch` grows with every suspend, resume and stop: messages, leases and parked chains of an older epoch are invalid.
    `stage` is the last one after the job has ended. `event_sequence` is the number of the newest event.
    """

    __tablename__ = "jobs"

    id: Mapped[Id] = mapped_column(primary_key=True)
    user_id: Mapped[str]
    name: Mapped[str]
    kind: Mapped[str]
    namespace: Mapped[str]
    state: Mapped[str]
    stage: Mapped[str]
    epoch: Mapped[int] = mapped_column(default=0)
    reason: Mapped[str] = mapped_column(default="")
    event_sequence: Mapped[int] = mapped_column(default=0)
    attempt: Mapped[int] = mapped_column(default=0)
    retried: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[Timestamp]
    started_at: Mapped[Timestamp | None]
    finished_at: Mapped[Timestamp | None]
    suspended_at: Mapped[Timestamp | None]
    suspended_by: Mapped[str] = mapped_column(default="")
    # Who may resume it, as the gate was registered when it suspended the job.
    resumer: Mapped[str] = mapped_column(default="")
    # When a suspension ends by itself, and how: `stop`, `resume` or `ask`.
    suspended_until: Mapped[Timestamp | None]
    on_timeout: Mapped[str] = mapped_column(default="")
    last_observed_at: Mapped[Timestamp | None]
    # When the next retry of a failed replica is due.
    retry_at: Mapped[Timestamp | None]
    cleanup: Mapped[str | None]
    # A launch may have been in progress when the job ended: pods of it may appear until then.
    cleanup_after: Mapped[Timestamp | None]
    logs_pruned_at: Mapped[Timestamp | None]
    # How large its logs are, measured after its end if their size is limited.
    log_bytes: Mapped[int | None] = mapped_column(BigInteger)
    # Nothing of the job runs any more; its ended pods are kept in the cluster until then.
    kept_until: Mapped[Timestamp | None]
    exit_code: Mapped[int | None]
    exit_diagnostics: Mapped[str] = mapped_column(default="")
    retry_of: Mapped[Id | None]
    # The run of a flow that the job is a task of.
    run_id: Mapped[Id | None]
    submitted_by: Mapped[str] = mapped_column(default="")
    request_id: Mapped[str] = mapped_column(default="")
    # The context of the trace that the job belongs to; empty when it belongs to none.
    traceparent: Mapped[str] = mapped_column(default="")

    __table_args__ = (
        Index(None, "user_id", "id"),
        Index(None, "user_id", "state", "id"),
        Index(None, "state", "id"),
        Index(None, "kind", "id"),
        Index("ix_jobs_name_prefix", "name", "id", postgresql_ops={"name": "text_pattern_ops"}),
        Index(None, "stage", "id"),
        Index("ix_jobs_suspended", "suspended_by", "id", postgresql_where=text("suspended_at IS NOT NULL")),
        Index("ix_jobs_suspended_until", "suspended_until", postgresql_where=text("suspended_until IS NOT NULL")),
        Index(
            "ix_jobs_last_observed",
            "last_observed_at",
            postgresql_where=text("stage = 'cluster' AND finished_at IS NULL"),
        ),
        Index("ix_jobs_retry", "retry_at", postgresql_where=text("retry_at IS NOT NULL")),
        Index(
            "ix_jobs_logs",
            "finished_at",
            postgresql_where=text("finished_at IS NOT NULL AND logs_pruned_at IS NULL"),
        ),
        Index("ix_jobs_cleanup", "id", postgresql_where=text("cleanup = 'pending'")),
        {"postgresql_with": {"fillfactor": 85}},
    )


class JobDocument(Base):
    """The documents of a job: header and job as submitted, the TaskSet as it is now, the factors by topic; and from the
    observations: the states of its roles, and what only that kind of cluster reports (`platform`)."""

    __tablename__ = "job_documents"

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    header: Mapped[Document]
    submitted: Mapped[Document]
    taskset: Mapped[Document | None]
    factors: Mapped[Document]
    roles: Mapped[Document | None]
    platform: Mapped[Document | None]


class Step(Base):
    """Which stage a job has to pass next: a transactional outbox with one row per job, a lease and a timer.

    Written in the transaction that makes the step pending and deleted in the one that ends it, so a job that is suspended,
    launched or ended has none. `due_at` is when a tick should publish it (again): shortly after it was published, when its
    lease expires, or when an unavailable plugin is to be called again (`not_before`). `unreachable` holds the fields of
    `stages.outcomes.Unreachable` by plugin key, with `since` in ISO 8601.
    """

    __tablename__ = "steps"

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    epoch: Mapped[int]
    stage: Mapped[str]
    pending_since: Mapped[Timestamp]
    due_at: Mapped[Timestamp]
    not_before: Mapped[Timestamp | None]
    publish_count: Mapped[int] = mapped_column(default=0)
    claim_count: Mapped[int] = mapped_column(default=0)
    crash_count: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None]
    lease_until: Mapped[Timestamp | None]
    unreachable: Mapped[Document]

    __table_args__ = (
        Index(None, "due_at"),
        # Steps that nobody has claimed yet.
        Index(
            "ix_steps_unclaimed",
            "stage",
            "job_id",
            postgresql_where=text("lease_owner IS NULL AND claim_count = 0"),
        ),
        {"postgresql_with": {"fillfactor": 70}},
    )


class PluginAnswer:
    """The columns of a plugin's answer: how it was asked, the outcome, and what it changed. `patch` is RFC 6902."""

    attempts: Mapped[int] = mapped_column(default=0)
    started_at: Mapped[Timestamp]
    duration_ms: Mapped[int] = mapped_column(default=0)
    outcome: Mapped[str]
    decision: Mapped[str] = mapped_column(default="")
    reason: Mapped[str] = mapped_column(default="")
    factors: Mapped[Document | None]
    patch: Mapped[Document | None]


class TrailRow(PluginAnswer, Base):
    """One row per plugin call, and one per resume.

    `call_number` counts the calls of this plugin for this job and stage. `actor` is who resumed.
    """

    __tablename__ = "trail"

    id: Mapped[Serial]
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    epoch: Mapped[int]
    stage: Mapped[str]
    plugin_key: Mapped[str] = mapped_column(default="")
    call_number: Mapped[int] = mapped_column(default=1)
    actor: Mapped[str] = mapped_column(default="")

    __table_args__ = (
        Index(None, "job_id", "id"),
        Index("ix_trail_failed", "started_at", postgresql_where=text("outcome = 'failed'")),
    )


class ShadowAnswer(PluginAnswer, Base):
    """What a shadow answered about a stage of a job, beside its trail: one row per job, stage and shadow.

    `shadow_of` is the plugin that it was to replace, `trail_id` the plugin call that it is compared with, and `agrees` whether
    both answered the same; null where one of them did not answer.
    """

    __tablename__ = "shadow_answers"

    id: Mapped[Serial]
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    stage: Mapped[str]
    plugin_key: Mapped[str]
    shadow_of: Mapped[str] = mapped_column(default="")
    trail_id: Mapped[int | None] = mapped_column(BigInteger)
    agrees: Mapped[bool | None]

    __table_args__ = (UniqueConstraint("job_id", "stage", "plugin_key"), Index(None, "plugin_key", "started_at"))


class Replica(Base):
    """The latest attempt of one replica, as last observed in the job attempt `job_attempt`."""

    __tablename__ = "replicas"

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    role: Mapped[str]
    index: Mapped[int]
    job_attempt: Mapped[int] = mapped_column(default=0)
    attempt: Mapped[int] = mapped_column(default=0)
    state: Mapped[str]
    reason: Mapped[str] = mapped_column(default="")
    exit_code: Mapped[int | None]
    diagnostics: Mapped[str] = mapped_column(default="")
    started_at: Mapped[Timestamp | None]
    finished_at: Mapped[Timestamp | None]
    container_id: Mapped[str] = mapped_column(default="")
    host_ip: Mapped[str] = mapped_column(default="")
    pod_name: Mapped[str] = mapped_column(default="")
    pod_uid: Mapped[str] = mapped_column(default="")
    pod_ip: Mapped[str] = mapped_column(default="")
    restarts: Mapped[int] = mapped_column(default=0)

    __table_args__ = (PrimaryKeyConstraint("job_id", "role", "index"),)


class JobResult(Base):
    """The results that one replica of a job left: output and metrics. Replicas that left none have no row.

    `problem` says why an existing output is not stored, `metrics_problem` the same for the metrics. With `unknown` the cluster
    could not determine whether there was an output, and `problem` says why.
    """

    __tablename__ = "job_results"

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    role: Mapped[str]
    index: Mapped[int]
    output: Mapped[str | None]
    metrics: Mapped[Document | None]
    problem: Mapped[str] = mapped_column(default="")
    metrics_problem: Mapped[str] = mapped_column(default="")
    unknown: Mapped[bool] = mapped_column(default=False)
    collected_at: Mapped[Timestamp]

    __table_args__ = (PrimaryKeyConstraint("job_id", "role", "index"),)


class IdempotencyKey(Base):
    """A key that a client sent with a request that makes something, so that the request sent again returns the same ID."""

    __tablename__ = "idempotency_keys"

    token_id: Mapped[str]
    key: Mapped[str]
    digest: Mapped[str]
    made_id: Mapped[str]
    created_at: Mapped[Timestamp]

    __table_args__ = (PrimaryKeyConstraint("token_id", "key"), Index(None, "created_at"))
