"""The tables, the sequence of event positions, and the one row of the registry."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "admin_password",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_admin_password")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("before", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("after", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False)
    op.create_index(op.f("ix_audit_target_id"), "audit", ["target", "id"], unique=False)
    op.create_table(
        "features",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("authorization", sa.Text(), nullable=False),
        sa.Column("signing_secret", sa.Text(), nullable=False),
        sa.Column("selector", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_features")),
        sa.UniqueConstraint("name", name=op.f("uq_features_name")),
    )
    op.create_index(op.f("ix_features_author"), "features", ["author"], unique=False)
    op.create_index(
        "ix_features_name_prefix", "features", ["name"], unique=False, postgresql_ops={"name": "text_pattern_ops"}
    )
    op.create_table(
        "flows",
        sa.Column("id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("document_key", sa.Text(), nullable=False),
        sa.Column("entry", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("creator", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("scheduled_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("replay_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deleted_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deleted_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("schedule_error", sa.Text(), nullable=False),
        sa.Column("schedule_error_at", sa.DateTime(timezone=True), nullable=True),
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
    op.create_index("ix_flows_key_prefix", "flows", ["key"], unique=False, postgresql_ops={"key": "text_pattern_ops"})
    op.create_table(
        "idempotency_keys",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("made_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("event_sequence", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("retried", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("suspended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("suspended_by", sa.Text(), nullable=False),
        sa.Column("resumer", sa.Text(), nullable=False),
        sa.Column("suspended_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("on_timeout", sa.Text(), nullable=False),
        sa.Column("last_observed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cleanup", sa.Text(), nullable=True),
        sa.Column("cleanup_after", sa.DateTime(timezone=True), nullable=True),
        sa.Column("logs_pruned_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("log_bytes", sa.BigInteger(), nullable=True),
        sa.Column("kept_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("exit_diagnostics", sa.Text(), nullable=False),
        sa.Column("retry_of", sa.String(length=32, collation="C"), nullable=True),
        sa.Column("run_id", sa.String(length=32, collation="C"), nullable=True),
        sa.Column("submitted_by", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("traceparent", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        postgresql_with={"fillfactor": 85},
    )
    op.create_index("ix_jobs_cleanup", "jobs", ["id"], unique=False, postgresql_where=sa.text("cleanup = 'pending'"))
    op.create_index(
        "ix_jobs_last_observed",
        "jobs",
        ["last_observed_at"],
        unique=False,
        postgresql_where=sa.text("stage = 'cluster' AND finished_at IS NULL"),
    )
    op.create_index(op.f("ix_jobs_kind_id"), "jobs", ["kind", "id"], unique=False)
    op.create_index(
        "ix_jobs_logs",
        "jobs",
        ["finished_at"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NOT NULL AND logs_pruned_at IS NULL"),
    )
    op.create_index(
        "ix_jobs_name_prefix", "jobs", ["name", "id"], unique=False, postgresql_ops={"name": "text_pattern_ops"}
    )
    op.create_index(
        "ix_jobs_retry", "jobs", ["retry_at"], unique=False, postgresql_where=sa.text("retry_at IS NOT NULL")
    )
    op.create_index(op.f("ix_jobs_stage_id"), "jobs", ["stage", "id"], unique=False)
    op.create_index(op.f("ix_jobs_state_id"), "jobs", ["state", "id"], unique=False)
    op.create_index(
        "ix_jobs_suspended",
        "jobs",
        ["suspended_by", "id"],
        unique=False,
        postgresql_where=sa.text("suspended_at IS NOT NULL"),
    )
    op.create_index(
        "ix_jobs_suspended_until",
        "jobs",
        ["suspended_until"],
        unique=False,
        postgresql_where=sa.text("suspended_until IS NOT NULL"),
    )
    op.create_index(op.f("ix_jobs_user_id_id"), "jobs", ["user_id", "id"], unique=False)
    op.create_index(op.f("ix_jobs_user_id_state_id"), "jobs", ["user_id", "state", "id"], unique=False)
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "registry",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_registry")),
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
        "cluster_health",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("problem_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lag_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cluster_health")),
    )
    op.create_table(
        "heartbeats",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_heartbeats")),
    )
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
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("forwho", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("privileges", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("own_only", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=True),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"], ["tokens.id"], name=op.f("fk_browser_sessions_token_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_browser_sessions")),
    )
    op.create_index(op.f("ix_browser_sessions_seen_at"), "browser_sessions", ["seen_at"], unique=False)
    op.create_index(op.f("ix_browser_sessions_token_id"), "browser_sessions", ["token_id"], unique=False)
    op.create_table(
        "backfills",
        sa.Column("id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("flow_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("points", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("made_count", sa.Integer(), nullable=False),
        sa.Column("points_to_retry", sa.JSON(none_as_null=True), nullable=False),
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
        "events",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("previous_state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_events_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.UniqueConstraint("job_id", "sequence", name=op.f("uq_events_job_id_sequence")),
    )
    op.create_index(
        "ix_events_position", "events", ["position"], unique=True, postgresql_where=sa.text("position IS NOT NULL")
    )
    op.create_index("ix_events_unplaced", "events", ["id"], unique=False, postgresql_where=sa.text("position IS NULL"))
    op.create_table(
        "feed_changes",
        sa.Column("id", sa.BigInteger(), server_default=sa.text("nextval('events_id_seq')"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("creator", sa.Text(), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_feed_changes")),
    )
    op.create_index(
        "ix_feed_changes_position",
        "feed_changes",
        ["position"],
        unique=True,
        postgresql_where=sa.text("position IS NOT NULL"),
    )
    op.create_index(
        "ix_feed_changes_unplaced",
        "feed_changes",
        ["id"],
        unique=False,
        postgresql_where=sa.text("position IS NULL"),
    )
    op.create_table(
        "job_documents",
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("header", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("submitted", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("taskset", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("factors", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("roles", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("platform", sa.JSON(none_as_null=True), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_documents_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_documents")),
    )
    op.create_table(
        "job_results",
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("output", sa.Text(), nullable=True),
        sa.Column("metrics", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("metrics_problem", sa.Text(), nullable=False),
        sa.Column("unknown", sa.Boolean(), nullable=False),
        sa.Column("collected_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_results_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "role", "index", name=op.f("pk_job_results")),
    )
    op.create_table(
        "plugins",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("feature_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("call_address", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("selector", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("effective_selector", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("timeout_seconds", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("patience_seconds", sa.Integer(), nullable=False),
        sa.Column("failure_policy", sa.Text(), nullable=False),
        sa.Column("resumer", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("shadow_of", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["feature_id"], ["features.id"], name=op.f("fk_plugins_feature_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plugins")),
        sa.UniqueConstraint("key", name=op.f("uq_plugins_key")),
    )
    op.create_index(op.f("ix_plugins_feature_id"), "plugins", ["feature_id"], unique=False)
    op.create_index(op.f("ix_plugins_type_position"), "plugins", ["type", "position"], unique=False)
    op.create_table(
        "port_leases",
        sa.Column("port", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_port_leases_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("port", name=op.f("pk_port_leases")),
    )
    op.create_index(op.f("ix_port_leases_job_id"), "port_leases", ["job_id"], unique=False)
    op.create_table(
        "replicas",
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("job_attempt", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("diagnostics", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("container_id", sa.Text(), nullable=False),
        sa.Column("host_ip", sa.Text(), nullable=False),
        sa.Column("pod_name", sa.Text(), nullable=False),
        sa.Column("pod_uid", sa.Text(), nullable=False),
        sa.Column("pod_ip", sa.Text(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_replicas_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "role", "index", name=op.f("pk_replicas")),
    )
    op.create_table(
        "steps",
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("pending_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("publish_count", sa.Integer(), nullable=False),
        sa.Column("claim_count", sa.Integer(), nullable=False),
        sa.Column("crash_count", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("unreachable", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_steps_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_steps")),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(op.f("ix_steps_due_at"), "steps", ["due_at"], unique=False)
    op.create_index(
        "ix_steps_unclaimed",
        "steps",
        ["stage", "job_id"],
        unique=False,
        postgresql_where=sa.text("lease_owner IS NULL AND claim_count = 0"),
    )
    op.create_table(
        "trail",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("plugin_key", sa.Text(), nullable=False),
        sa.Column("call_number", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("factors", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("patch", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_trail_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trail")),
    )
    op.create_index(
        "ix_trail_failed", "trail", ["started_at"], unique=False, postgresql_where=sa.text("outcome = 'failed'")
    )
    op.create_index(op.f("ix_trail_job_id_id"), "trail", ["job_id", "id"], unique=False)
    op.create_table(
        "shadow_answers",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("plugin_key", sa.Text(), nullable=False),
        sa.Column("shadow_of", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("factors", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("patch", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("trail_id", sa.BigInteger(), nullable=True),
        sa.Column("agrees", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_shadow_answers_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shadow_answers")),
        sa.UniqueConstraint("job_id", "stage", "plugin_key", name=op.f("uq_shadow_answers_job_id_stage_plugin_key")),
    )
    op.create_index(
        op.f("ix_shadow_answers_plugin_key_started_at"), "shadow_answers", ["plugin_key", "started_at"], unique=False
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=True),
        sa.Column("subject_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("plugin_key", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_answer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("give_up_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_deliveries_event_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
    )
    op.create_index(
        "ix_deliveries_due",
        "deliveries",
        ["plugin_key", "next_at"],
        unique=False,
        postgresql_where=sa.text("status = 'waiting'"),
    )
    op.create_index(op.f("ix_deliveries_event_id"), "deliveries", ["event_id"], unique=False)
    op.create_index(
        op.f("ix_deliveries_plugin_key_status_id"), "deliveries", ["plugin_key", "status", "id"], unique=False
    )
    op.create_index(
        op.f("ix_deliveries_subject_id_plugin_key_sequence"),
        "deliveries",
        ["subject_id", "plugin_key", "sequence"],
        unique=False,
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("flow_id", sa.String(length=32, collation="C"), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("execution_date", sa.DateTime(timezone=True), nullable=False),
        sa.Column("only_task", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("blocked_by", sa.Text(), nullable=False),
        sa.Column("dismissed", sa.Boolean(), nullable=False),
        sa.Column("tasks_version", sa.Text(), nullable=False),
        sa.Column("creator", sa.Text(), nullable=False),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("traceparent", sa.Text(), nullable=False),
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
        "run_definitions",
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
        sa.Column("retries_left", sa.Integer(), nullable=False),
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
        sa.Column("pending", sa.Boolean(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
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
        "ix_task_attempts_pending",
        "task_attempts",
        ["run_id", "due_at"],
        unique=False,
        postgresql_where=sa.text("pending"),
    )

    op.execute(sa.schema.CreateSequence(sa.Sequence("event_positions")))
    op.execute("INSERT INTO registry (id, version) VALUES (1, 1)")


def downgrade() -> None:
    op.execute(sa.schema.DropSequence(sa.Sequence("event_positions")))
    op.drop_index("ix_task_attempts_pending", table_name="task_attempts", postgresql_where=sa.text("pending"))
    op.drop_table("task_attempts")
    op.drop_table("task_runs")
    op.drop_table("run_definitions")
    op.drop_index(op.f("ix_runs_state_id"), table_name="runs")
    op.drop_index("ix_runs_open", table_name="runs", postgresql_where=sa.text("finished_at IS NULL"))
    op.drop_index(op.f("ix_runs_flow_id_id"), table_name="runs")
    op.drop_index(op.f("ix_runs_backfill_id"), table_name="runs")
    op.drop_table("runs")
    op.drop_index(op.f("ix_deliveries_subject_id_plugin_key_sequence"), table_name="deliveries")
    op.drop_index(op.f("ix_deliveries_plugin_key_status_id"), table_name="deliveries")
    op.drop_index(op.f("ix_deliveries_event_id"), table_name="deliveries")
    op.drop_index("ix_deliveries_due", table_name="deliveries", postgresql_where=sa.text("status = 'waiting'"))
    op.drop_table("deliveries")
    op.drop_index(op.f("ix_shadow_answers_plugin_key_started_at"), table_name="shadow_answers")
    op.drop_table("shadow_answers")
    op.drop_index(op.f("ix_trail_job_id_id"), table_name="trail")
    op.drop_index("ix_trail_failed", table_name="trail", postgresql_where=sa.text("outcome = 'failed'"))
    op.drop_table("trail")
    op.drop_index(
        "ix_steps_unclaimed",
        table_name="steps",
        postgresql_where=sa.text("lease_owner IS NULL AND claim_count = 0"),
    )
    op.drop_index(op.f("ix_steps_due_at"), table_name="steps")
    op.drop_table("steps")
    op.drop_table("replicas")
    op.drop_index(op.f("ix_port_leases_job_id"), table_name="port_leases")
    op.drop_table("port_leases")
    op.drop_index(op.f("ix_plugins_type_position"), table_name="plugins")
    op.drop_index(op.f("ix_plugins_feature_id"), table_name="plugins")
    op.drop_table("plugins")
    op.drop_table("job_results")
    op.drop_table("job_documents")
    op.drop_index("ix_feed_changes_unplaced", table_name="feed_changes", postgresql_where=sa.text("position IS NULL"))
    op.drop_index(
        "ix_feed_changes_position", table_name="feed_changes", postgresql_where=sa.text("position IS NOT NULL")
    )
    op.drop_table("feed_changes")
    op.drop_index("ix_events_unplaced", table_name="events", postgresql_where=sa.text("position IS NULL"))
    op.drop_index("ix_events_position", table_name="events", postgresql_where=sa.text("position IS NOT NULL"))
    op.drop_table("events")
    op.drop_index("uq_backfills_running", table_name="backfills", postgresql_where=sa.text("state = 'running'"))
    op.drop_index(op.f("ix_backfills_flow_id"), table_name="backfills")
    op.drop_table("backfills")
    op.drop_index(op.f("ix_browser_sessions_token_id"), table_name="browser_sessions")
    op.drop_index(op.f("ix_browser_sessions_seen_at"), table_name="browser_sessions")
    op.drop_table("browser_sessions")
    op.drop_table("tokens")
    op.drop_table("template_revisions")
    op.drop_table("heartbeats")
    op.drop_table("cluster_health")
    op.drop_index(op.f("ix_run_signals_run_id"), table_name="run_signals")
    op.drop_table("run_signals")
    op.drop_table("registry")
    op.drop_table("leases")
    op.drop_index(op.f("ix_jobs_user_id_state_id"), table_name="jobs")
    op.drop_index(op.f("ix_jobs_user_id_id"), table_name="jobs")
    op.drop_index("ix_jobs_suspended_until", table_name="jobs", postgresql_where=sa.text("suspended_until IS NOT NULL"))
    op.drop_index("ix_jobs_suspended", table_name="jobs", postgresql_where=sa.text("suspended_at IS NOT NULL"))
    op.drop_index(op.f("ix_jobs_state_id"), table_name="jobs")
    op.drop_index(op.f("ix_jobs_stage_id"), table_name="jobs")
    op.drop_index("ix_jobs_retry", table_name="jobs", postgresql_where=sa.text("retry_at IS NOT NULL"))
    op.drop_index("ix_jobs_name_prefix", table_name="jobs", postgresql_ops={"name": "text_pattern_ops"})
    op.drop_index(
        "ix_jobs_logs",
        table_name="jobs",
        postgresql_where=sa.text("finished_at IS NOT NULL AND logs_pruned_at IS NULL"),
    )
    op.drop_index(op.f("ix_jobs_kind_id"), table_name="jobs")
    op.drop_index(
        "ix_jobs_last_observed",
        table_name="jobs",
        postgresql_where=sa.text("stage = 'cluster' AND finished_at IS NULL"),
    )
    op.drop_index("ix_jobs_cleanup", table_name="jobs", postgresql_where=sa.text("cleanup = 'pending'"))
    op.drop_table("jobs")
    op.drop_index(op.f("ix_idempotency_keys_created_at"), table_name="idempotency_keys")
    op.drop_table("idempotency_keys")
    op.drop_index("ix_flows_key_prefix", table_name="flows", postgresql_ops={"key": "text_pattern_ops"})
    op.drop_index("ix_flows_due", table_name="flows", postgresql_where=sa.text("next_at IS NOT NULL AND NOT paused"))
    op.drop_table("flows")
    op.drop_index("ix_features_name_prefix", table_name="features", postgresql_ops={"name": "text_pattern_ops"})
    op.drop_index(op.f("ix_features_author"), table_name="features")
    op.drop_table("features")
    op.drop_index(op.f("ix_audit_target_id"), table_name="audit")
    op.drop_index(op.f("ix_audit_at"), table_name="audit")
    op.drop_table("audit")
    op.drop_table("admin_password")
