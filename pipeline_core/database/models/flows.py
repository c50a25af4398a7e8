"""Flows: their templates and definitions, runs with their tasks, and what the engine still owes them."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, PrimaryKeyConstraint, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline_core.database.models.base import Base, Document, Id, Serial, Timestamp


class BackfillState(StrEnum):
    """`failed` stands at the point whose run failed, and `stopped` where a person stopped it; both can be resumed."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class TemplateRevision(Base):
    """A template as it stood from `created_at` on. The highest revision of a name is the one that counts; without a
    document it says that the template was deleted."""

    __tablename__ = "template_revisions"

    name: Mapped[str]
    revision: Mapped[int]
    document: Mapped[Document | None]
    created_at: Mapped[Timestamp]
    created_by: Mapped[str]

    __table_args__ = (PrimaryKeyConstraint("name", "revision"),)


class StoredFlow(Base):
    """A flow: `key` is what it is told apart by, `written_as` and `entry` are the key and value of the import document.

    `next_at` is the earliest point of the schedule that may still lack a run, whether the flow is paused or not; None
    without a schedule. `scheduled_since` is when the schedule was set or changed last. Points up to `replay_until` are made
    up whatever the flow says. `fault` is why no run could be made at `faulted_at`; it is tried again.
    """

    __tablename__ = "flows"

    id: Mapped[Id] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    written_as: Mapped[str]
    entry: Mapped[Document]
    creator: Mapped[str]
    created_at: Mapped[Timestamp]
    updated_at: Mapped[Timestamp]
    paused: Mapped[bool] = mapped_column(default=False)
    scheduled_since: Mapped[Timestamp | None]
    next_at: Mapped[Timestamp | None]
    replay_until: Mapped[Timestamp | None]
    fault: Mapped[str] = mapped_column(default="")
    faulted_at: Mapped[Timestamp | None]

    __table_args__ = (Index("ix_flows_due", "next_at", postgresql_where=text("next_at IS NOT NULL AND NOT paused")),)


class StoredBackfill(Base):
    """Points of a schedule that are made up one after the other: `points` are RFC 3339, oldest first, and `made` of them
    have a run; those in `again` are to be done once more. A flow has one that is running at most."""

    __tablename__ = "backfills"

    id: Mapped[Id] = mapped_column(primary_key=True)
    flow_id: Mapped[Id] = mapped_column(ForeignKey("flows.id", ondelete="CASCADE"), index=True)
    points: Mapped[Document]
    made: Mapped[int] = mapped_column(default=0)
    again: Mapped[Document]
    stop_on_failure: Mapped[bool]
    state: Mapped[str] = mapped_column(default=BackfillState.RUNNING)
    reason: Mapped[str] = mapped_column(default="")
    runner: Mapped[str]
    created_at: Mapped[Timestamp]
    finished_at: Mapped[Timestamp | None]

    __table_args__ = (
        Index("uq_backfills_running", "flow_id", unique=True, postgresql_where=text("state = 'running'")),
    )


class StoredRun(Base):
    """A run of a flow, however it was started. `only` is the key of the task that runs alone, or empty.

    `token` is another one after each change of its tasks: whoever remembers them with it need not read them again.
    """

    __tablename__ = "runs"

    id: Mapped[Id] = mapped_column(primary_key=True)
    flow_id: Mapped[Id] = mapped_column(ForeignKey("flows.id", ondelete="CASCADE"))
    trigger: Mapped[str]
    execution_date: Mapped[Timestamp]
    only: Mapped[str] = mapped_column(default="")
    state: Mapped[str]
    reason: Mapped[str] = mapped_column(default="")
    blocked_by: Mapped[str] = mapped_column(default="")
    dismissed: Mapped[bool] = mapped_column(default=False)
    token: Mapped[str] = mapped_column(default="")
    creator: Mapped[str]
    runner: Mapped[str]
    request_id: Mapped[str] = mapped_column(default="")
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


class RunDocument(Base):
    """What a run was started with: the flow's entry and its templates by name as they were then, the variables given,
    and the values of `global_env`, which all its tasks share."""

    __tablename__ = "run_documents"

    run_id: Mapped[Id] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    entry: Mapped[Document]
    templates: Mapped[Document]
    variables: Mapped[Document]
    global_values: Mapped[Document]


class StoredTask(Base):
    """A task of a run, as `flows.engine.TaskRun` has it. `position` is its place in the order of the DAG."""

    __tablename__ = "task_runs"

    run_id: Mapped[Id] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    key: Mapped[str]
    position: Mapped[int]
    name: Mapped[str]
    label: Mapped[str] = mapped_column(default="")
    state: Mapped[str]
    attempt: Mapped[int] = mapped_column(default=0)
    active: Mapped[bool] = mapped_column(default=False)
    tries: Mapped[int] = mapped_column(default=0)
    reason: Mapped[str] = mapped_column(default="")
    output: Mapped[str | None]
    started_at: Mapped[Timestamp | None]
    finished_at: Mapped[Timestamp | None]

    __table_args__ = (PrimaryKeyConstraint("run_id", "key"), {"postgresql_with": {"fillfactor": 70}})


class TaskAttempt(Base):
    """One job of a task of a run, and the engine's outbox: as long as `owed`, the job is to be submitted (it has no
    `job_id` yet), or stopped (`stop`). The job and its ID here are written in one transaction, so that none is submitted
    twice."""

    __tablename__ = "task_attempts"

    run_id: Mapped[Id]
    key: Mapped[str]
    attempt: Mapped[int]
    job_id: Mapped[Id | None] = mapped_column(unique=True)
    stop: Mapped[bool] = mapped_column(default=False)
    owed: Mapped[bool] = mapped_column(default=True)
    due_at: Mapped[Timestamp]

    __table_args__ = (
        PrimaryKeyConstraint("run_id", "key", "attempt"),
        ForeignKeyConstraint(["run_id", "key"], ["task_runs.run_id", "task_runs.key"], ondelete="CASCADE"),
        Index("ix_task_attempts_owed", "run_id", "due_at", postgresql_where=text("owed")),
    )


class RunSignal(Base):
    """A job of a run has changed: written in the transaction that changed it, gone when the engine has looked at it.

    Rows are only added and deleted, so that nobody who changes a job waits for the engine, nor it for them.
    """

    __tablename__ = "run_signals"

    id: Mapped[Serial]
    run_id: Mapped[Id] = mapped_column(index=True)
    job_id: Mapped[Id]
    at: Mapped[Timestamp]


class PortLease(Base):
    """A port of the hosts that a job has to itself until nothing of it is left there."""

    __tablename__ = "port_leases"

    port: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
