"""Tokens and the admin's password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.routing import BaseConverter

from api import paging
from api.auth import ADMIN
from api.blueprint import Blueprint, Call
from api.openapi import RequestBody
from api.paging import Page
from api.schemas import tokens as forms
from api.schemas.fields import Pages
from pipeline_core.auth import tokens
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.auth.tokens import TokenReference
from pipeline_core.database import transaction

blueprint = Blueprint("tokens", __name__, url_prefix="/v1/tokens", description="Who may do what.")


class TokenIDConverter(BaseConverter):
    """A token's ID in a path: not one of the words that other paths have in its place.

    Otherwise those paths would allow DELETE, too.
    """

    regex = "(?!(?:admin|normal)$)[^/]+"
    part_isolating = True


_TOKEN = "Jq3vX0aZ81LmTnRb5cWd7Kfe"
_ID = "t01kb5gqz5sk4q7r3f0m7h2k9xz"


def _grantable(actor: Actor, token: Mapping[str, Any]) -> None:
    tokens.require_grantable(token.get("privileges", ()), actor)


CREATION = RequestBody(
    forms.TokenBody,
    example={"privileges": ["read_job", "write_job"], "forwho": "ada", "note": "notebook"},
    permit=_grantable,
)
DELETION = RequestBody(forms.REFERENCE, example={"id": _ID})
CHANGE = RequestBody(forms.PRIVILEGES, example={"id": _ID, "privileges": ["read_job"]}, permit=_grantable)


@blueprint.operation(
    "PUT", "/admin", needs=ADMIN, body=RequestBody(forms.AdminBody, example={"token": "a long new password"})
)
def change_admin_password(call: Call) -> None:
    """Change the admin's password; the old one stops working at once"""
    with transaction() as session:
        tokens.change_admin_password(session, call.body, call.actor)


@blueprint.operation(
    "POST",
    "",
    needs=Privilege.WRITE_TOKEN,
    body=CREATION,
    payload=forms.TokenMade,
    links={"delete_by_id": ("token_id", "id")},
    example={"token": _TOKEN, "id": _ID},
)
def create(call: Call) -> Any:
    """Create a token; it is shown only in this answer"""
    with transaction() as session:
        token, token_id = tokens.create(session, call.body, call.actor)
    return {"token": token, "id": token_id}


@blueprint.operation(
    "PUT",
    "/normal",
    needs=Privilege.WRITE_TOKEN,
    body=CHANGE,
    error_statuses=(404,),
)
def change_privileges(call: Call) -> None:
    """Change what a token allows, at once"""
    reference, privileges = call.body
    with transaction() as session:
        tokens.change_privileges(session, reference, privileges, call.actor)


@blueprint.operation(
    "DELETE",
    "",
    needs=Privilege.WRITE_TOKEN,
    body=DELETION,
    error_statuses=(404,),
)
def delete(call: Call) -> None:
    """Revoke a token by its value or ID"""
    with transaction() as session:
        tokens.delete(session, call.body, call.actor)


@blueprint.operation("DELETE", "/<token:token_id>", needs=Privilege.WRITE_TOKEN)
def delete_by_id(call: Call, token_id: str) -> None:
    """Revoke a token by its ID"""
    with transaction() as session:
        tokens.delete(session, TokenReference(id=token_id), call.actor)


@blueprint.operation("GET", "", needs=Privilege.READ_TOKEN, query=Pages, payload=forms.TokenItem, paged=True)
def token_list(call: Call) -> Page:
    """Tokens, without their values"""
    limit, offset = paging.limit_and_offset(call.query)
    with transaction() as session:
        found, total = tokens.listing(session, limit=limit, offset=offset, actor=call.actor)
    return paging.page(found, total, call.query)
