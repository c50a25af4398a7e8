"""A later version's migration: it only adds to the schema, and fills what it adds in the rows that are there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "later"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("priority", sa.Integer(), nullable=True))
    op.execute("UPDATE jobs SET priority = 1")
    op.add_column("steps", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_steps_priority", "steps", ["priority", "due_at"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_steps_priority", table_name="steps")
    op.drop_column("steps", "priority")
    op.drop_column("jobs", "priority")
