"""The feed of all events."""

from __future__ import annotations

from flask import Response

from api import envelope
from api.blueprint import Blueprint, Call
from api.schemas import events as forms
from pipeline_core.auth.privileges import Privilege
from pipeline_core.jobs import feed

blueprint = Blueprint("events", __name__, url_prefix="/v1/events", description="Changes of all jobs' states.")

_NEXT_CURSOR = {
    "X-Next-Cursor": {"description": "What `after` takes to go on from here.", "schema": {"type": "integer"}},
}


@blueprint.operation(
    "GET",
    "",
    needs=Privilege.READ_JOB,
    query=forms.FeedQuery,
    payload={"type": "array", "items": forms.FeedItem},
    headers=_NEXT_CURSOR,
)
def event_feed(call: Call) -> Response:
    """The feed of all events in order, for clients that poll

    A client that goes on with `X-Next-Cursor` gets each event exactly once, and a job's events in their sequence. An
    answer with fewer than `limit` events has reached the present end of the feed: ask again later.
    """
    found = feed.read(call.actor, after=call.query["after"], limit=call.query["limit"])
    response = envelope.success(found.events)
    response.headers["X-Next-Cursor"] = str(found.next)
    return response
