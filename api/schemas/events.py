"""Schemas of the feed of events."""

from __future__ import annotations

from marshmallow import fields

from api.schemas.fields import Query, WholeNumber
from api.schemas.jobs import StateChange

MAX_EVENTS = 1000
MAX_POSITION = 2**63 - 1


class FeedQuery(Query):
    """Position in the feed, and limit."""

    after = WholeNumber(
        0,
        MAX_POSITION,
        load_default=0,
        metadata={"description": "The `X-Next-Cursor` of the answer before, or a position; 0 is the beginning."},
    )
    limit = WholeNumber(1, MAX_EVENTS, load_default=100, metadata={"description": "At most so many events."})


class FeedItem(StateChange):
    """One change of a job's state, with its position in the feed."""

    position = fields.Integer(required=True, metadata={"description": "Grows along the feed; numbers may be left out."})
    jobID = fields.String(required=True)
    jobName = fields.String(required=True)
    jobKind = fields.String(required=True)
    userID = fields.String(required=True)
    namespace = fields.String(required=True, metadata={"description": "Where the job's pods run, as of now."})
