"""Schemas of tokens and of the audit log."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from marshmallow import Schema, ValidationError, fields, post_load, validate

from api.schemas.bodies import BodySchema, Boolean, ChoiceField, Either, Items, Text, between
from api.schemas.fields import nullable_time
from pipeline_core.auth import password
from pipeline_core.auth.actor import ADMIN
from pipeline_core.auth.privileges import NAMES, Privilege
from pipeline_core.auth.tokens import TokenDefinition, TokenReference
from pipeline_core.common.clock import now, parse_rfc3339
from pipeline_core.validation.texts import CLEAN_NAME, PRINTABLE, clean_name, shown


class AdminBody(BodySchema):
    """The new password."""

    token = Text(
        required=True,
        secret=True,
        validate=between(password.LENGTH[0], password.LENGTH[-1]),
        check=password.error_of,
        metadata={
            "pattern": f"^{PRINTABLE.pattern}$",
            "description": "Printable ASCII without blanks around it, and not 24 letters and digits, as tokens are.",
        },
    )

    @post_load
    def _password(self, data: Mapping[str, Any], **_: Any) -> str:
        return str(data["token"])


class Credential(BodySchema):
    """A token, or the admin's password."""

    token = Text(required=True, secret=True, validate=validate.Length(min=1))

    @post_load
    def _credential(self, data: Mapping[str, Any], **_: Any) -> str:
        return str(data["token"])


class FutureTimestamp(Text):
    """A time in the future, as RFC 3339."""

    absent = None

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        try:
            moment = parse_rfc3339(value)
        except (TypeError, ValueError):
            text = f'must be an RFC 3339 time such as "2030-01-31T12:00:00Z", not {shown(value)}'
            raise ValidationError(text) from None
        if moment <= now():
            raise ValidationError(f"must lie ahead, not {shown(value)}")
        return moment

    def _validate(self, value: Any) -> None:
        """Nothing to do: `_deserialize` has checked it."""


def _forwho_error(text: str) -> str | None:
    if not clean_name(text):
        return "must have no control or direction characters and no white space around it"
    # As people read it: `Admin`, and letters that only look different to a computer.
    if unicodedata.normalize("NFKC", text).casefold() == ADMIN:
        return f'must be somebody else: "{ADMIN}" is the one with the password'
    return None


def _privileges() -> Items:
    """One or more privileges; deserialized to a tuple in the order of `Privilege`, without duplicates."""
    return Items(ChoiceField(NAMES), required=True, validate=validate.Length(min=1), post_load=_in_order)


def _in_order(named: Sequence[Privilege]) -> tuple[Privilege, ...]:
    return tuple(privilege for privilege in Privilege if privilege in named)


class TokenBody(BodySchema):
    """What the token allows, and whom it is for."""

    privileges = _privileges()
    forwho = Text(
        required=True,
        validate=between(1, 255),
        check=_forwho_error,
        metadata={"pattern": CLEAN_NAME, "description": "Not `admin`, in any case."},
    )
    note = Text()
    ownOnly = Boolean(default=False, metadata={"description": "Only jobs whose user is `forwho`."})
    expiresAt = FutureTimestamp(metadata={"format": "date-time"})

    @post_load
    def _definition(self, data: Mapping[str, Any], **_: Any) -> TokenDefinition:
        return TokenDefinition(
            privileges=data["privileges"],
            forwho=data["forwho"],
            note=data["note"],
            own_only=data["ownOnly"],
            expires_at=data["expiresAt"],
        )


class _Reference(BodySchema):
    """Which token is meant."""

    @post_load
    def _reference(self, data: Mapping[str, Any], **_: Any) -> Any:
        reference = TokenReference(value=data.get("token", ""), id=data.get("id", ""))
        return (reference, data["privileges"]) if "privileges" in data else reference


class TokenByValue(_Reference):
    """The token of this value."""

    token = Text(required=True, secret=True, lacking="is required, or id in its place", validate=validate.Length(min=1))


class TokenByID(_Reference):
    """The token of this ID."""

    id = Text(required=True, validate=validate.Length(min=1))


class PrivilegesByValue(TokenByValue):
    """What the token of this value is to allow."""

    privileges = _privileges()


class PrivilegesByID(TokenByID):
    """What the token of this ID is to allow."""

    privileges = _privileges()


REFERENCE = Either(token=TokenByValue, id=TokenByID)
PRIVILEGES = Either(token=PrivilegesByValue, id=PrivilegesByID)


class TokenMade(Schema):
    """The created token; its value is not shown again."""

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


class TokenSelf(Schema):
    """The token of a request."""

    id = fields.String(required=True, metadata={"description": "Empty for the admin's password."})
    forwho = fields.String(required=True)
    admin = fields.Boolean(required=True)
    privileges = fields.List(fields.String(validate=validate.OneOf([p.value for p in Privilege])), required=True)
    ownOnly = fields.Boolean(required=True)
    expiresAt = nullable_time()


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
