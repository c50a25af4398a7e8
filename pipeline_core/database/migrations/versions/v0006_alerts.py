"""Alerts: deliveries that tell of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_OLD, _NEW = (f"ix_deliveries_{name}_plugin_key_sequence" for name in ("job_id", "subject_id"))


def upgrade() -> None:
    op.alter_column("deliveries", "job_id", new_column_name="subject_id")
    op.execute(f"ALTER INDEX {_OLD} RENAME TO {_NEW}")
    op.alter_column("deliveries", "event_id", nullable=True)
    op.add_column("deliveries", sa.Column("body", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.execute("DELETE FROM deliveries WHERE event_id IS NULL")
    op.drop_column("deliveries", "body")
    op.alter_column("deliveries", "event_id", nullable=False)
    op.execute(f"ALTER INDEX {_NEW} RENAME TO {_OLD}")
    op.alter_column("deliveries", "subject_id", new_column_name="job_id")
