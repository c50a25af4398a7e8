"""Heartbeats: each process that serves no requests (workers, beat) writes one to the database every few seconds.

A heartbeat shows that the process runs and that it reaches the database.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete as delete_from
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.database import transaction
from pipeline_core.database.models import Heartbeat

EVERY_SECONDS = 10.0
"""How often a process writes its heartbeat."""
DELETED_AFTER_SECONDS = 3600.0
"""The age at which a worker's heartbeat is deleted: the worker's machine is gone."""

BEAT = "beat"
WORKER = "worker/"
"""Prefix of a worker's name in the table; its Celery node name follows."""


def beat(name: str) -> None:
    """Write the heartbeat of `name`. Raises Unavailable."""
    with transaction() as session:
        session.execute(
            insert(Heartbeat)
            .values(name=name, at=func.now())
            .on_conflict_do_update(index_elements=["name"], set_={"at": func.now()})
        )


def delete(name: str) -> None:
    """Delete the heartbeat of a process that was stopped, so that it is not reported as a problem. Raises Unavailable."""
    with transaction() as session:
        session.execute(delete_from(Heartbeat).where(Heartbeat.name == name))


def ages(session: Session) -> dict[str, float]:
    """Seconds since the last heartbeat, by name."""
    age = func.extract("epoch", func.now() - Heartbeat.at)
    # One that was written after this transaction began would be less than 0 s old.
    return {name: max(float(seconds), 0.0) for name, seconds in session.execute(select(Heartbeat.name, age))}


def delete_old() -> int:
    """Delete the heartbeats of workers that are gone. Returns how many. Raises Unavailable."""
    with transaction() as session:
        gone = session.execute(
            delete_from(Heartbeat)
            .where(
                Heartbeat.name.startswith(WORKER), Heartbeat.at < func.now() - timedelta(seconds=DELETED_AFTER_SECONDS)
            )
            .returning(Heartbeat.name)
        )
        return len(gone.all())
