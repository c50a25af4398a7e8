"""The feed: all events of all jobs in one order, for clients that poll.

Events get their IDs before their transactions commit, and these commit in any order: a client that continued from the highest
ID seen would miss events that commit late. So the place in the feed, `position`, is assigned only to committed events,
by the readers, one reader at a time. A higher position is never visible before a lower one.
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
"""How many events one reader assigns positions to, at most; the rest is left to the next reader."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A page of the feed, in order. `next` is the `after` of the next page."""

    events: Sequence[Mapping[str, Any]]
    next: int


def read(actor: Actor, *, after: int, limit: int) -> Feed:
    """The events after the position `after` (0: from the beginning) that this actor may see.

    All events committed before the call are in the feed, unless more than PLACED_AT_ONCE had no position yet: the next
    calls return the rest. Raises Unavailable.
    """
    # In a transaction of its own, so that the lock is released before the page is read.
    with transaction() as session:
        place(session)
    with transaction() as session:
        # All positions up to `top` are committed; those that the second statement sees beyond it are for the next call.
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
    # A page that is not full has covered everything up to `top`, also events that this actor may not see.
    return Feed([_view(row) for row in rows], rows[-1].Event.position if len(rows) == limit else max(after, top))


def place(session: Session) -> None:
    """Assign the next positions to committed events that have none, in the order of their IDs.

    A job's events get their IDs under the lock on the job, so their order is that of `sequence`, and none is committed
    before an earlier one.
    """
    waiting = select(Event.id).where(Event.position.is_(None)).order_by(Event.id)
    if session.execute(waiting.limit(1)).first() is None:
        return
    # A statement that begins once the lock is held sees all positions that earlier holders assigned.
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
