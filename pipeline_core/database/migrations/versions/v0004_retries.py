"""Retries of replicas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index("ix_jobs_retry", "jobs", ["retry_at"], postgresql_where=sa.text("retry_at IS NOT NULL"))


def downgrade() -> None:
    op.drop_index("ix_jobs_retry", table_name="jobs")
    op.drop_column("jobs", "retry_at")
