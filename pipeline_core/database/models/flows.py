"""Flows: their templates and definitions, their runs with the tasks, and the jobs that are still to be submitted or stopped."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, PrimaryKeyConstraint, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline_core.database.models.base import Base, Document, Id, Serial, Timestamp


class BackfillState(StrEnum):
    """`failed`: a run of one of the points failed; `stopped`: a person stopped it. Both can be resumed."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class TemplateRevision(Base):
    """A template as imported at `created_at`. The highest revision of a name is in force; one without a document says that
    the template was deleted."""

    __tablename__ = "template_revisions"

    name: Mapped[str]
    revision: Mapped[int]
    document: Mapped[Document | None]
    created_at: Mapped[Timestamp]
    created_by: Mapped[str]

    __table_args__ = (PrimaryKeyConstraint("name", "revision"),)


class FlowRow(Base):
    """A flow. `key` identifies it; `document_key` and `entry` are the key and value that it has in an import document.

    `next_at` is the earliest point of the schedule that may have no run yet, whether the flow is paused or not; None
    without a schedule. `scheduled_since` is when the schedule was set or changed last. Points up to `replay_until` get runs
    even with `catchup: false`. `schedule_error` is why no scheduled run could be created at `schedule_error_at`; this
    is retried. Of the points from `deleted_from` to `deleted_until` runs were deleted for their age: they get none again.
    """

    __tablename__ = "flows"

    id: Mapped[Id] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    document_key: Mapped[str]
    entry: Mapped[Document]
    creator: Mapped[str]
    created_at: Mapped[Timestamp]
    updated_at: Mapped[Timestamp]
    paused: Mapped[bool] = mapped_column(default=False)
    scheduled_since: Mapped[Timestamp | None]
    next_at: Mapped[Timestamp | None]
    replay_until: Mapped[Timestamp | None]
    deleted_from: Mapped[Timestamp | None]
    deleted_until: Mapped[Timestamp | None]
    schedule_error: Mapped[str] = mapped_column(default="")
    schedule_error_at: Mapped[Timestamp | None]

    __table_args__ = (
        Index("ix_flows_due", "next_at", postgresql_where=text("next_at IS NOT NULL AND NOT paused")),
        Index("ix_flows_key_prefix", "key", postgresql_ops={"key": "text_pattern_ops"}),
    )


class Backfill(Base):
    """Points of a schedule that get runs on request: `points` are RFC 3339, oldest first; the first `made_count` of them have
    a run; those in `points_to_retry` are run again before the others. A flow has at most one running backfill."""

    __tablename__ = "backfills"

    id: Mapped[Id] = mapped_column(primary_key=True)
    flow_id: Mapped[Id] = mapped_column(ForeignKey("flows.id", ondelete="CASCADE"), index=True)
    points: Mapped[Document]
    made_count: Mapped[int] = mapped_column(default=0)
    points_to_retry: Mapped[Document]
    stop_on_failure: Mapped[bool]
    state: Mapped[str] = mapped_column(default=BackfillState.RUNNING)
    reason: Mapped[str] = mapped_column(default="")
    runner: Mapped[str]
    created_at: Mapped[Timestamp]
    finished_at: Mapped[Timestamp | None]

    __table_args__ = (
        Index("uq_backfills_running", "flow_id", unique=True, postgresql_where=text("state = 'running'")),
    )


class RunRow(Base):
    """A run of a flow, whatever triggered it. `only_task` is the key of the one task of `task` and `debug` runs, else empty.

    `tasks_version` is a new random text after each change of its tasks: a cache that has them with it is up to date.
    """

    __tablename__ = "runs"

    id: Mapped[Id] = mapped_column(primary_key=True)
    flow_id: Mapped[Id] = mapped_column(ForeignKey("flows.id", ondelete="CASCADE"))
    trigger: Mapped[str]
    execution_date: Mapped[Timestamp]
    only_task: Mapped[str] = mapped_column(default="")
    state: Mapped[str]
    reason: Mapped[str] = mapped_column(default="")
    blocked_by: Mapped[str] = mapped_column(default="")
    dismissed: Mapped[bool] = mapped_column(default=False)
    tasks_version: Mapped[str] = mapped_column(default="")
    creator: Mapped[str]
    runner: Mapped[str]
    request_id: Mapped[str] = mapped_column(default="")
    # The context of the trace that the run and the jobs of its tasks belong to; empty when they belong to none.
    traceparent: Mapped[str] = mapped_column(default="")
    backfill_id: Mapped[Id | None] = mapped_column(ForeignKey("backfills.id", ondelete="SET NULL"))
    created_at: Mapped[Timestamp]
    started_at: Mapped[Timestamp | None]
    finished_at: Mapped[Timestamp | None]

    __table_args__ = (
        UniqueConstraint("flow_id", "trigger", "execution_date"),
        Index(None, "flow_id", "id"),
        Index(None, "state", "id"),
        Index(None, "backfill_id"),
        Index("ix_runs_open", "flow_id", postgresql_where=text("finished_at IS NULL")),
        {"postgresql_with": {"fillfactor": 85}},
    )


class RunDefinitionRow(Base):
    """What a run was started with; it never changes: the flow's entry, the documents of its templates by name, the given
    variables, and the values of `global_env`, which all its tasks share."""

    __tablename__ = "run_definitions"

    run_id: Mapped[Id] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    entry: Mapped[Document]
    templates: Mapped[Document]
    variables: Mapped[Document]
    global_values: Mapped[Document]


class TaskRunRow(Base):
    """A task of a run, as `flows.runs.state_machine.TaskRun`. `position` is its place in the topological order of the DAG."""

    __tablename__ = "task_runs"

    run_id: Mapped[Id] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    key: Mapped[str]
    position: Mapped[int]
    name: Mapped[str]
    label: Mapped[str] = mapped_column(default="")
    state: Mapped[str]
    attempt: Mapped[int] = mapped_column(default=0)
    active: Mapped[bool] = mapped_column(default=False)
    retries_left: Mapped[int] = mapped_column(default=0)
    reason: Mapped[str] = mapped_column(default="")
    output: Mapped[str | None]
    started_at: Mapped[Timestamp | None]
    finished_at: Mapped[Timestamp | None]

    __table_args__ = (PrimaryKeyConstraint("run_id", "key"), {"postgresql_with": {"fillfactor": 70}})


class TaskAttempt(Base):
    """One job of a task of a run, and the engine's outbox: while `pending`, the job has to be submitted (it has no `job_id`
    yet), or stopped (`stop`). The job and its ID here are written in one transaction, so that no job is submitted twice.
    At `due_at` a sweep publishes a wake-up for the run if the attempt is still pending."""

    __tablename__ = "task_attempts"

    run_id: Mapped[Id]
    key: Mapped[str]
    attempt: Mapped[int]
    job_id: Mapped[Id | None] = mapped_column(unique=True)
    stop: Mapped[bool] = mapped_column(default=False)
    pending: Mapped[bool] = mapped_column(default=True)
    due_at: Mapped[Timestamp]
    # What the TaskSet of its job takes.
    bytes: Mapped[int] = mapped_column(default=0)

    __table_args__ = (
        PrimaryKeyConstraint("run_id", "key", "attempt"),
        ForeignKeyConstraint(["run_id", "key"], ["task_runs.run_id", "task_runs.key"], ondelete="CASCADE"),
        Index("ix_task_attempts_pending", "run_id", "due_at", postgresql_where=text("pending")),
    )


class RunSignal(Base):
    """A job of a run has changed state: inserted in the transaction that changed the job, deleted when the run has applied it.
    One without a job (its `job_id` is empty) says that more tasks of the run may start.

    Rows are only inserted and deleted, so that a change of a job never waits for the lock of its run, nor the other way.
    """

    __tablename__ = "run_signals"

    id: Mapped[Serial]
    run_id: Mapped[Id] = mapped_column(index=True)
    job_id: Mapped[Id]
    at: Mapped[Timestamp]


class PortLease(Base):
    """A host port that is reserved for one job until the job has been cleaned up."""

    __tablename__ = "port_leases"

    port: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
