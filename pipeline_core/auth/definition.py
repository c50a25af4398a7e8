"""Tokens as clients ask for them: read from JSON and checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pipeline_core.auth.actor import ADMIN, Actor
from pipeline_core.auth.privileges import NAMES, Privilege
from pipeline_core.common.clock import parse_rfc3339
from pipeline_core.errors import Forbidden, MissingParameter
from pipeline_core.validation.body import Body
from pipeline_core.validation.texts import shown

_FORWHO_LENGTH = range(1, 256)


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenDefinition:
    """`privileges` stand in the order of `Privilege`, each once."""

    privileges: tuple[Privilege, ...]
    forwho: str
    note: str
    own_only: bool
    expires_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenReference:
    """A token by its value or by its id; the other one is empty."""

    value: str = ""
    id: str = ""


def read_token(raw: object, actor: Actor, now: datetime) -> TokenDefinition:
    """The token that `raw`, parsed JSON, asks for.

    Raises Forbidden when it would allow what `actor` may not, else MissingParameter and WrongParameter.
    """
    body = Body.of(raw)
    token = TokenDefinition(
        privileges=_read_privileges(body),
        forwho=body.text("forwho", required=True, check=_forwho_problem),
        note=body.text("note"),
        own_only=body.flag("ownOnly"),
        expires_at=_read_expiry(body, now),
    )
    require_grantable(token.privileges, actor)
    if actor.own_only and not body.errors and not (token.own_only and token.forwho == actor.name):
        raise Forbidden(f"An ownOnly token can create only ownOnly tokens for {shown(actor.name)}.")
    body.finish()
    return token


def read_change(raw: object, actor: Actor) -> tuple[TokenReference, tuple[Privilege, ...]]:
    """Which token is to have which privileges from now on. Raises what `read_token` raises."""
    body = Body.of(raw)
    reference = _read_reference(body)
    privileges = _read_privileges(body)
    require_grantable(privileges, actor)
    body.finish()
    return reference, privileges


def read_reference(raw: object) -> TokenReference:
    """The token that is meant by `raw`, parsed JSON with either `token` or `id`. Raises MissingParameter, WrongParameter."""
    body = Body.of(raw)
    reference = _read_reference(body)
    body.finish()
    return reference


def require_grantable(privileges: Iterable[Privilege], actor: Actor) -> None:
    """Raises Forbidden when there are some among them that the actor does not hold."""
    lacking = [privilege for privilege in privileges if not actor.may(privilege)]
    if lacking:
        raise Forbidden(f"Nobody can grant what they do not hold: this token lacks {', '.join(lacking)}.")


def _read_privileges(body: Body) -> tuple[Privilege, ...]:
    named = set()
    for index, name in enumerate(body.texts("privileges")):
        if name in NAMES:
            named.add(NAMES[name])
        else:
            body.add_error(("privileges", index), f"must be one of {', '.join(Privilege)}, not {shown(name)}")
    return tuple(privilege for privilege in Privilege if privilege in named)


def _read_reference(body: Body) -> TokenReference:
    reference = TokenReference(value=body.text("token", secret=True), id=body.text("id"))
    if reference.value and reference.id:
        body.add_error("id", "must not stand beside token: one of the two says which token is meant")
    elif not (reference.value or reference.id or body.errors):
        body.add_error("token", "is required, or id in its place", MissingParameter)
    return reference


def _read_expiry(body: Body, now: datetime) -> datetime | None:
    value = body.value("expiresAt")
    if value is None:
        return None
    try:
        moment = parse_rfc3339(value)
    except (TypeError, ValueError):
        body.add_error("expiresAt", f'must be an RFC 3339 time such as "2030-01-31T12:00:00Z", not {shown(value)}')
        return None
    if moment <= now:
        body.add_error("expiresAt", f"must lie ahead, not {shown(value)}")
    return moment


def _forwho_problem(text: str) -> str | None:
    if len(text) not in _FORWHO_LENGTH:
        return f"must be {_FORWHO_LENGTH[0]} to {_FORWHO_LENGTH[-1]} characters"
    return f'must be somebody else: "{ADMIN}" is the one with the password' if text == ADMIN else None
