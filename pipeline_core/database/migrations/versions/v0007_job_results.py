"""What jobs leave behind."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
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


def downgrade() -> None:
    op.drop_table("job_results")
