"""The feed: all events of all jobs in one order, and the changes of stages, runs and deliveries between them.

Events and changes get their IDs before their transactions commit, and these commit in any order: a client that continued from
the highest ID seen would miss what commits late. So the place in the feed, `position`, is assigned only to what is committed,
by the readers, one reader at a time. A higher position is never visible before a lower one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, func, literal, or_, select, union_all, update
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import rfc3339
from pipeline_core.database import transaction
from pipeline_core.database.engine import to_json
from pipeline_core.database.locks import Lock, lock
from pipeline_core.database.models import POSITIONS, Event, FeedChange, FeedKind, Job, table
from pipeline_core.jobs import views

PLACED_AT_ONCE = 2_000
"""How many entries one reader assigns positions to, at most; the rest is left to the next reader."""

_EVENT, _CHANGE = table(Event), table(FeedChange)
_UNPLACED = tuple(
    select(of.c.id, literal(of is _CHANGE).label("is_change")).where(of.c.position.is_(None))
    for of in (_EVENT, _CHANGE)
)
_ANY_UNPLACED = select(or_(*(unplaced.exists() for unplaced in _UNPLACED)))
_TOP = select(
    func.greatest(*(select(func.max(of.c.position)).scalar_subquery() for of in (_EVENT, _CHANGE)), literal(0))
)
_IS_BEYOND = select(or_(*(unplaced.exists() for unplaced in _UNPLACED), _TOP.scalar_subquery() > bindparam("after")))
_EVENTS = select(Event, Job.name, Job.kind, Job.user_id, Job.namespace, Job.run_id).join(Job, Job.id == Event.job_id)
_CHANGES = select(*_CHANGE.c)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the feed. `users` are those whose own it is, `shown` is what the API shows."""

    position: int
    kind: FeedKind
    users: tuple[str, ...]
    shown: Mapping[str, Any]

    def is_for(self, actor: Actor) -> bool:
        return any(map(actor.sees, self.users))


@dataclass(frozen=True)
class Feed:
    """A page of the feed, in order. `next` is the `after` of the next page."""

    entries: Sequence[Entry]
    next: int

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """What the API shows."""
        return [entry.shown for entry in self.entries]

    @cached_property
    def json(self) -> str:
        """The same as JSON: made once, also for many readers."""
        return to_json(self.events)


def read(actor: Actor, *, after: int, limit: int, kinds: Collection[FeedKind] = tuple(FeedKind)) -> Feed:
    """What is in the feed after the position `after` (0: from the beginning), of these kinds and as far as this actor may see it.

    All that was committed before the call is in the feed, unless more than PLACED_AT_ONCE had no position yet: the next
    calls return the rest. Raises Unavailable.
    """
    # In a transaction of its own, so that the lock is released before the page is read.
    with transaction() as session:
        place(session)
    with transaction() as session:
        # All positions up to `top` are committed; those that later statements see beyond it are for the next call.
        top = _top(session)
        entries = [
            *_events(session, actor, after, top, limit, kinds),
            *_changes(session, actor, after, top, limit, kinds),
        ]
    entries = sorted(entries, key=lambda entry: entry.position)[:limit]
    # A page that is not full has covered everything up to `top`, also what this actor may not see.
    return Feed(entries, entries[-1].position if len(entries) == limit else max(after, top))


def latest() -> int:
    """The present end of the feed: the position after which all is that is committed from now on. Raises Unavailable."""
    with transaction() as session:
        while place(session) == PLACED_AT_ONCE:
            pass
        return _top(session)


def is_beyond(connection: Connection, after: int) -> bool:
    """Whether anything was committed that is, or will be, after this position. One statement, which reads three index entries."""
    found: bool = connection.execute(_IS_BEYOND, {"after": after}).scalar_one()
    return found


def place(session: Session) -> int:
    """Assign the next positions to committed entries that have none, in the order of their IDs. Returns how many.

    What is about one job gets its IDs under the lock on the job, so their order is that of `sequence`, and none is committed
    before an earlier one.
    """
    if not session.execute(_ANY_UNPLACED).scalar_one():
        return 0
    # A statement that begins once the lock is held sees all positions that earlier holders assigned.
    lock(session, Lock.FEED)
    oldest = [unplaced.order_by("id").limit(PLACED_AT_ONCE).subquery() for unplaced in _UNPLACED]
    both = union_all(*(select(*each.c) for each in oldest)).order_by("id").limit(PLACED_AT_ONCE)
    unplaced = both.cte("unplaced").prefix_with("MATERIALIZED")
    placed = select(*unplaced.c, POSITIONS.next_value().label("position")).cte("placed").prefix_with("MATERIALIZED")
    written = [
        update(of)
        .where(of.c.id == placed.c.id, placed.c.is_change == (of is _CHANGE))
        .values(position=placed.c.position)
        .cte(f"placed_{of.name}")
        for of in (_EVENT, _CHANGE)
    ]
    counted = select(func.count()).select_from(placed).add_cte(*written)
    return session.execute(counted).scalar_one()


def _top(session: Session) -> int:
    top: int = session.execute(_TOP).scalar_one()
    return top


def _events(
    session: Session, actor: Actor, after: int, top: int, limit: int, kinds: Collection[FeedKind]
) -> list[Entry]:
    if FeedKind.STATE not in kinds:
        return []
    query = _page(_EVENTS, Event.position, after, top, limit)
    if actor.own_only:
        query = query.where(Job.user_id == actor.name)
    return [_of_event(row) for row in session.execute(query)]


def _changes(
    session: Session, actor: Actor, after: int, top: int, limit: int, kinds: Collection[FeedKind]
) -> list[Entry]:
    wanted = [kind for kind in kinds if kind is not FeedKind.STATE]
    if not wanted:
        return []
    query = _page(_CHANGES, _CHANGE.c.position, after, top, limit).where(_CHANGE.c.kind.in_(wanted))
    if actor.own_only:
        query = query.where(or_(_CHANGE.c.user_id == actor.name, _CHANGE.c.creator == actor.name))
    return [_of_change(row) for row in session.execute(query)]


def _page(query: Select[*tuple[Any, ...]], position: Any, after: int, top: int, limit: int) -> Select[*tuple[Any, ...]]:
    return query.where(position > after, position <= top).order_by(position).limit(limit)


def _of_event(row: Row[Any]) -> Entry:
    event = row.Event
    shown = {
        "position": event.position,
        "kind": FeedKind.STATE,
        "jobID": event.job_id,
        "runID": row.run_id,
        **views.change(event),
        "jobName": row.name,
        "jobKind": row.kind,
        "userID": row.user_id,
        "namespace": row.namespace,
    }
    return Entry(event.position, FeedKind.STATE, (row.user_id,), shown)


def _of_change(row: Row[Any]) -> Entry:
    shown = {
        "position": row.position,
        "kind": row.kind,
        **row.document,
        "occurredAt": rfc3339(row.occurred_at),
    }
    return Entry(row.position, FeedKind(row.kind), (row.user_id, row.creator), shown)
