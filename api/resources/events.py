"""The feed of events and changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response, request

from api import envelope
from api.blueprint import Blueprint, Call
from api.schemas import events as forms
from api.streaming import ClientConnection, StreamSlots
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database.models import FeedKind
from pipeline_core.errors import Unavailable
from pipeline_core.jobs import feed
from pipeline_core.jobs.feed import Feed
from pipeline_core.jobs.feed_tail import feed_tail
from pipeline_core.runtime import part
from pipeline_core.settings import settings

blueprint = Blueprint("events", __name__, url_prefix="/v1/events", description="What changes, in one order.")

WAITERS_FULL = "X-Waiters-Full"
_HEADERS = {
    "X-Next-Cursor": {"description": "What `after` takes to go on from here.", "schema": {"type": "integer"}},
    WAITERS_FULL: {
        "description": "`true` when the request did not wait, since as many wait as may: ask again after 2 seconds.",
        "schema": {"const": "true"},
    },
}


@blueprint.operation(
    "GET",
    "",
    needs=Privilege.READ_JOB,
    query=forms.FeedQuery,
    payload={"type": "array", "items": forms.FeedItem},
    headers=_HEADERS,
)
def event_feed(call: Call) -> Response:
    """The feed of all events, changes of stages, runs and deliveries, in order

    A client that goes on with `X-Next-Cursor` gets each entry exactly once, and those of a job in their order. An answer with
    fewer than `limit` entries has reached the present end of the feed: ask again later, or with `wait`, which answers when
    there is something.
    """
    query = call.query
    asked = {"limit": query["limit"], "kinds": tuple(map(FeedKind, query["kind"]))}
    is_waiting = query["wait"] > 0 and request.method != "HEAD"
    after = feed.latest() if query["after"] is None else query["after"]
    if release := _waiter(call) if is_waiting else None:
        found = _wait(call, release, after=after, **asked)
    elif query["after"] is None:
        found = Feed([], after)
    else:
        found = feed.read(call.actor, after=after, **asked)
    response = envelope.success_of_json(found.json)
    response.headers["X-Next-Cursor"] = str(found.next)
    if is_waiting and not release:
        response.headers[WAITERS_FULL] = "true"
    return response


def _wait(call: Call, release: Callable[[], None], **asked: Any) -> Feed:
    connection = ClientConnection(request.environ, streamed=False)
    try:
        return feed_tail().read_or_wait(
            call.actor, **asked, seconds=call.query["wait"], is_gone=lambda: connection.closed
        )
    finally:
        release()


def _waiter(call: Call) -> Callable[[], None] | None:
    """Occupies a place among those that wait; None when there is none."""
    try:
        return _waiters().take(call.actor.name)
    except Unavailable:
        return None


@part
def _waiters() -> StreamSlots:
    return StreamSlots("waiters", settings().event_waiters)
