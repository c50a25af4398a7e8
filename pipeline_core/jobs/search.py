"""Finding jobs by the beginning of their ID or of their name: a few of them, by indexes, however many jobs there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Select, select, text
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database.models import Job
from pipeline_core.jobs import views
from pipeline_core.jobs.views import GATE_GONE, LIST_COLUMNS

LOOKED_AT = 10_000
"""How many jobs of its user, the newest, a search by name looks at for an `ownOnly` token."""

_JOBS = select(*LIST_COLUMNS, GATE_GONE)
_NEWEST_FIRST = Job.id.desc()
# The order of the index on names, backwards: among jobs of the same name the newest comes first.
_BY_NAME = (text("jobs.name USING ~>~"), _NEWEST_FIRST)


def search(session: Session, prefix: str, actor: Actor, *, limit: int) -> list[dict[str, Any]]:
    """At most `limit` jobs whose ID (in any case) or name begins with `prefix`, as lists show them.

    First those by ID, the newest first; then those of exactly this name, the newest first; then others by name, backwards.
    Where the actor sees only its own jobs, names are looked for among the newest LOOKED_AT of them.
    """
    found: dict[str, dict[str, Any]] = {}
    for query in _queries(prefix, actor):
        if len(found) < limit:
            # The next query may find the same jobs.
            found |= {job.id: views.summary(job) for job in session.execute(query.limit(limit))}
    return list(found.values())[:limit]


def _queries(prefix: str, actor: Actor) -> Iterator[Select[Any]]:
    own = [Job.user_id == actor.name] if actor.own_only else []
    # One character would be the letter that all IDs begin with.
    if len(prefix) > 1:
        yield _JOBS.where(Job.id.startswith(prefix.lower(), autoescape=True), *own).order_by(_NEWEST_FIRST)
    if own:
        newest = select(Job.id, Job.name).where(*own).order_by(_NEWEST_FIRST).limit(LOOKED_AT).subquery()
        named = select(newest.c.id).where(newest.c.name.startswith(prefix, autoescape=True))
        yield _JOBS.where(Job.id.in_(named)).order_by((Job.name == prefix).desc(), *_BY_NAME)
    else:
        yield _JOBS.where(Job.name == prefix).order_by(_NEWEST_FIRST)
        yield _JOBS.where(Job.name.startswith(prefix, autoescape=True)).order_by(*_BY_NAME)
