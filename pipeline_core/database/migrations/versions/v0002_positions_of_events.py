"""Positions of events in the feed of all events; those that are there already get theirs when they are first read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(sa.schema.CreateSequence(sa.Sequence("event_positions")))
    op.add_column("events", sa.Column("position", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_events_position",
        "events",
        ["position"],
        unique=True,
        postgresql_where=sa.text("position IS NOT NULL"),
    )
    op.create_index("ix_events_unplaced", "events", ["id"], unique=False, postgresql_where=sa.text("position IS NULL"))
    # Without statistics of the new column, finding the first of many that have no position sorts all of them.
    op.execute("ANALYZE events (position)")


def downgrade() -> None:
    op.drop_index("ix_events_unplaced", table_name="events", postgresql_where=sa.text("position IS NULL"))
    op.drop_index("ix_events_position", table_name="events", postgresql_where=sa.text("position IS NOT NULL"))
    op.drop_column("events", "position")
    op.execute(sa.schema.DropSequence(sa.Sequence("event_positions")))
