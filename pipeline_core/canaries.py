"""Canaries: tasks that do nothing but arrive. Beat has one sent through every queue now and then; a queue whose canary is
old is served by nobody, however alive its workers look. When each was last seen is kept among the leases: a queue counts
as served until a canary's time is over."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline_core.database import transaction
from pipeline_core.database.models import Lease

STALE_SECONDS = 120.0
"""A queue whose last canary is older than this is not served."""

_PREFIX = "canary/"


def arrived(queue: str, worker: str) -> None:
    """A worker has taken a canary out of this queue. Raises Unavailable."""
    served = {"owner": worker, "until": func.now() + timedelta(seconds=STALE_SECONDS)}
    with transaction() as session:
        session.execute(
            insert(Lease)
            .values(name=_PREFIX + queue, **served)
            .on_conflict_do_update(index_elements=["name"], set_=served)
        )


def ages(session: Session) -> dict[str, float]:
    """Seconds since the last canary arrived, by queue; without the queues that never saw one."""
    age = func.extract("epoch", func.now() - Lease.until) + STALE_SECONDS
    rows = session.execute(select(Lease.name, age).where(Lease.name.startswith(_PREFIX, autoescape=True)))
    return {name.removeprefix(_PREFIX): max(float(seconds), 0.0) for name, seconds in rows}
