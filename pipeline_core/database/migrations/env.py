"""Alembic's entry point: runs the migrations on the connection that `pipeline_core.database.migrate` passes."""

from __future__ import annotations

from alembic import context

from pipeline_core.database.models import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata, compare_type=True)

with context.begin_transaction():
    context.run_migrations()
