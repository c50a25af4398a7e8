"""Forms of what operators ask."""

from __future__ import annotations

from marshmallow import Schema, fields


class Version(Schema):
    """What is running."""

    version = fields.String(required=True)
    api = fields.String(required=True)
