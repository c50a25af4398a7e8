"""Forms of tokens and of the audit log."""

from __future__ import annotations

from marshmallow import Schema, fields, validate

from api.schemas.fields import BodySchema, nullable_time
from pipeline_core.auth.privileges import NAMES, Privilege

PRIVILEGES = validate.OneOf(list(NAMES))


class AdminBody(BodySchema):
    """The new password."""

    token = fields.String(
        required=True,
        validate=validate.Length(8, 128),
        metadata={
            "pattern": "^[!-~]([ -~]*[!-~])?$",
            "description": "Printable ASCII without blanks around it, and not 24 letters and digits, as tokens are.",
        },
    )


class TokenBody(BodySchema):
    """What the token allows, and whom it is for."""

    privileges = fields.List(fields.String(validate=PRIVILEGES), required=True, validate=validate.Length(min=1))
    forwho = fields.String(required=True, validate=validate.Length(1, 255), metadata={"description": "Not `admin`."})
    note = fields.String(allow_none=True)
    ownOnly = fields.Boolean(
        metadata={"description": "Only jobs whose user is `forwho`.", "default": False}, allow_none=True
    )
    expiresAt = fields.String(allow_none=True, metadata={"format": "date-time"})


class TokenByValue(BodySchema):
    """The token of this value."""

    token = fields.String(required=True, validate=validate.Length(min=1))


class TokenByID(BodySchema):
    """The token of this ID."""

    id = fields.String(required=True, validate=validate.Length(min=1))


class PrivilegesByValue(TokenByValue):
    """What the token of this value is to allow."""

    privileges = fields.List(fields.String(validate=PRIVILEGES), required=True, validate=validate.Length(min=1))


class PrivilegesByID(TokenByID):
    """What the token of this ID is to allow."""

    privileges = fields.List(fields.String(validate=PRIVILEGES), required=True, validate=validate.Length(min=1))


class TokenMade(Schema):
    """The token, shown this once."""

    token = fields.String(required=True, validate=validate.Regexp(r"^[A-Za-z0-9]{24}$"))
    id = fields.String(required=True)


class TokenItem(Schema):
    """A token without its value."""

    id = fields.String(required=True)
    forwho = fields.String(required=True)
    note = fields.String(required=True)
    privileges = fields.List(fields.String(validate=validate.OneOf([p.value for p in Privilege])), required=True)
    ownOnly = fields.Boolean(required=True)
    createdAt = nullable_time()
    expiresAt = nullable_time()
    lastUsedAt = nullable_time()


class AuditItem(Schema):
    """One change: who made it, when, from where, and what it changed."""

    id = fields.Integer(required=True)
    at = nullable_time()
    actor = fields.String(required=True)
    tokenID = fields.String(required=True)
    address = fields.String(required=True)
    requestID = fields.String(required=True)
    action = fields.String(required=True)
    target = fields.String(required=True)
    reason = fields.String(required=True)
    before = fields.Raw(required=True, allow_none=True)
    after = fields.Raw(required=True, allow_none=True)
