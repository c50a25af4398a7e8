"""Alembic's entry: runs the migrations over the connection that `pipeline_core.database.migrate` hands it."""

from __future__ import annotations

from alembic import context

from pipeline_core.database.models import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata, compare_type=True)

with context.begin_transaction():
    context.run_migrations()
