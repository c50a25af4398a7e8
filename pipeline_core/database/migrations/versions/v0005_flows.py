"""Flows, their runs, and what the engine owes them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "flows",
        sa.Column("id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("written_as", sa.Text(), nullable=False),
        sa.Column("entry", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("creator", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("scheduled_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("replay_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fault", sa.Text(), nullable=False),
        sa.Column("faulted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flows")),
        sa.UniqueConstraint("key", name=op.f("uq_flows_key")),
    )
    op.create_index(
        "ix_flows_due",
        "flows",
        ["next_at"],
        unique=False,
        postgresql_where=sa.text("next_at IS NOT NULL AND NOT paused"),
    )
    op.create_table(
        "run_signals",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_signals")),
    )
    op.create_index(op.f("ix_run_signals_run_id"), "run_signals", ["run_id"], unique=False)
    op.create_table(
        "template_revisions",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", "revision", name=op.f("pk_template_revisions")),
    )
    op.create_table(
        "backfills",
        sa.Column("id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("flow_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("points", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("made", sa.Integer(), nullable=False),
        sa.Column("again", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("stop_on_failure", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["flow_id"], ["flows.id"], name=op.f("fk_backfills_flow_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backfills")),
    )
    op.create_index(op.f("ix_backfills_flow_id"), "backfills", ["flow_id"], unique=False)
    op.create_index(
        "uq_backfills_running", "backfills", ["flow_id"], unique=True, postgresql_where=sa.text("state = 'running'")
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("flow_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("execution_date", sa.DateTime(timezone=True), nullable=False),
        sa.Column("only", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("blocked_by", sa.Text(), nullable=False),
        sa.Column("dismissed", sa.Boolean(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("creator", sa.Text(), nullable=False),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("backfill_id", sa.String(length=32, collation="C"), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["backfill_id"], ["backfills.id"], name=op.f("fk_runs_backfill_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["flow_id"], ["flows.id"], name=op.f("fk_runs_flow_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint(
            "flow_id", "trigger", "execution_date", name=op.f("uq_runs_flow_id_trigger_execution_date")
        ),
        postgresql_with={"fillfactor": 85},
    )
    op.create_index(op.f("ix_runs_backfill_id"), "runs", ["backfill_id"], unique=False)
    op.create_index(op.f("ix_runs_flow_id_id"), "runs", ["flow_id", "id"], unique=False)
    op.create_index("ix_runs_open", "runs", ["flow_id"], unique=False, postgresql_where=sa.text("finished_at IS NULL"))
    op.create_index(op.f("ix_runs_state_id"), "runs", ["state", "id"], unique=False)
    op.create_table(
        "run_documents",
        sa.Column("run_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("entry", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("templates", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("variables", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("global_values", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_documents_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_documents")),
    )
    op.create_table(
        "task_runs",
        sa.Column("run_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("output", sa.Text(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_task_runs_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "key", name=op.f("pk_task_runs")),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "task_attempts",
        sa.Column("run_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=True),
        sa.Column("stop", sa.Boolean(), nullable=False),
        sa.Column("owed", sa.Boolean(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "key"],
            ["task_runs.run_id", "task_runs.key"],
            name=op.f("fk_task_attempts_run_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("run_id", "key", "attempt", name=op.f("pk_task_attempts")),
        sa.UniqueConstraint("job_id", name=op.f("uq_task_attempts_job_id")),
    )
    op.create_index(
        "ix_task_attempts_owed", "task_attempts", ["run_id", "due_at"], unique=False, postgresql_where=sa.text("owed")
    )
    op.create_table(
        "port_leases",
        sa.Column("port", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_port_leases_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("port", name=op.f("pk_port_leases")),
    )
    op.create_index(op.f("ix_port_leases_job_id"), "port_leases", ["job_id"], unique=False)
    op.add_column("jobs", sa.Column("run_id", sa.String(length=32, collation="C"), nullable=True))


def downgrade() -> None:
    op.drop_column("jobs", "run_id")
    op.drop_index(op.f("ix_port_leases_job_id"), table_name="port_leases")
    op.drop_table("port_leases")
    op.drop_index("ix_task_attempts_owed", table_name="task_attempts", postgresql_where=sa.text("owed"))
    op.drop_table("task_attempts")
    op.drop_table("task_runs")
    op.drop_table("run_documents")
    op.drop_index(op.f("ix_runs_state_id"), table_name="runs")
    op.drop_index("ix_runs_open", table_name="runs", postgresql_where=sa.text("finished_at IS NULL"))
    op.drop_index(op.f("ix_runs_flow_id_id"), table_name="runs")
    op.drop_index(op.f("ix_runs_backfill_id"), table_name="runs")
    op.drop_table("runs")
    op.drop_index("uq_backfills_running", table_name="backfills", postgresql_where=sa.text("state = 'running'"))
    op.drop_index(op.f("ix_backfills_flow_id"), table_name="backfills")
    op.drop_table("backfills")
    op.drop_table("template_revisions")
    op.drop_index(op.f("ix_run_signals_run_id"), table_name="run_signals")
    op.drop_table("run_signals")
    op.drop_index("ix_flows_due", table_name="flows", postgresql_where=sa.text("next_at IS NOT NULL AND NOT paused"))
    op.drop_table("flows")
