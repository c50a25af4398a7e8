"""Logs that expire before their jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("logs_pruned_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_jobs_logs",
        "jobs",
        ["finished_at"],
        postgresql_where=sa.text("finished_at IS NOT NULL AND logs_pruned_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_logs", table_name="jobs")
    op.drop_column("jobs", "logs_pruned_at")
