"""Schemas of the search."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schemas.fields import Query, WholeNumber
from api.schemas.flows import FlowSummary
from api.schemas.jobs import JobSummary
from api.schemas.runs import RunSummary

MAX_FOUND = 50


class SearchQuery(Query):
    """What is looked for."""

    prefix = fields.String(
        required=True,
        validate=validate.Length(1, 255),
        metadata={"description": "How an ID or a name begins. Case counts only in names of jobs and features."},
    )
    limit = WholeNumber(1, MAX_FOUND, load_default=10, metadata={"description": "At most so many of each kind."})


class FoundFeature(Schema):
    """A feature, without its plugins."""

    name = fields.String(required=True)
    author = fields.String(required=True)
    owner = fields.String(required=True)
    description = fields.String(required=True)
    enabled = fields.Boolean(required=True)


class Found(Schema):
    """What was found; a kind that the token may not read is empty."""

    jobs = fields.List(fields.Nested(JobSummary), required=True)
    runs = fields.List(fields.Nested(RunSummary), required=True)
    flows = fields.List(fields.Nested(FlowSummary), required=True)
    features = fields.List(fields.Nested(FoundFeature), required=True)
