"""The feed: all events of all jobs in one order, for those who prefer to pull.

Events' IDs are drawn before their transactions commit, and these commit in any order: who continued from the highest
ID seen would miss what commits late. So the place in the feed, `position`, is given only to events that are committed,
by the readers, one after the other. A higher position is never visible before a lower one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, func, select, update
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database import transaction
from pipeline_core.database.locks import Lock, lock
from pipeline_core.database.models import POSITIONS, Event, Job
from pipeline_core.jobs import views

PLACED_AT_ONCE = 2_000
"""Events that one reader gives their positions; more are left to the next."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Some of the feed, in order. `next` is the `after` of what comes then."""

    events: Sequence[Mapping[str, Any]]
    next: int


def read(actor: Actor, *, after: int, limit: int) -> Feed:
    """The events that come after the position `after` (0: from the beginning) and are this actor's business.

    Whatever was committed before the call is in the feed, unless very many events had no position yet: then a part of
    them is, and the rest for the next calls. Raises Unavailable.
    """
    # In a transaction of its own, so that readers do not wait for each other's reading.
    with transaction() as session:
        place(session)
    with transaction() as session:
        # All up to here are committed, so what the second statement sees beyond it is for the next call.
        top = session.execute(select(func.max(Event.position))).scalar_one() or 0
        query = (
            select(Event, Job.name, Job.kind, Job.user_id, Job.namespace)
            .join(Job, Job.id == Event.job_id)
            .where(Event.position > after, Event.position <= top)
            .order_by(Event.position)
            .limit(limit)
        )
        if actor.own_only:
            query = query.where(Job.user_id == actor.name)
        rows = session.execute(query).all()
    # A page that is not full has seen everything up to the top, though others' events are not shown.
    return Feed([_view(row) for row in rows], rows[-1].Event.position if len(rows) == limit else max(after, top))


def place(session: Session) -> None:
    """Give events that are committed and have no position yet the next ones.

    The order is that of their IDs. Those of a job's events are drawn under the lock on the job, so they go as its
    sequence goes, and none is committed before those ahead of it.
    """
    waiting = select(Event.id).where(Event.position.is_(None)).order_by(Event.id)
    if session.execute(waiting.limit(1)).first() is None:
        return
    # A statement that begins once the lock is held sees all that earlier holders have placed.
    lock(session, Lock.FEED)
    unplaced = waiting.limit(PLACED_AT_ONCE).cte("unplaced").prefix_with("MATERIALIZED")
    placed = select(unplaced.c.id, POSITIONS.next_value().label("position")).cte("placed")
    session.execute(
        update(Event)
        .where(Event.id == placed.c.id)
        .values(position=placed.c.position)
        .execution_options(synchronize_session=False)
    )


def _view(row: Row[Event, str, str, str, str]) -> dict[str, Any]:
    event = row.Event
    return {
        "position": event.position,
        "jobID": event.job_id,
        **views.change(event),
        "jobName": row.name,
        "jobKind": row.kind,
        "userID": row.user_id,
        "namespace": row.namespace,
    }
