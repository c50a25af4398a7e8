"""Authentication: the token of a request or the session of a browser, and what it may do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from flask import g, request

from api import browsers
from api.failure_limit import FailureLimit
from pipeline_core.auth import browser_sessions, tokens
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import connected
from pipeline_core.errors import Forbidden, Unauthenticated

ADMIN: Final = "admin"
"""Declared in place of a privilege for what only the admin may do."""
ANY_TOKEN: Final = "any token"
"""Declared in place of a privilege for what every valid token may do."""

Needed = Privilege | tuple[Privilege, ...] | Literal["admin", "any token"]
"""Of several privileges one is enough here; which of them it has to be is decided with the target."""


def authenticate(limit: FailureLimit) -> Actor:
    """The actor whose token the request carries, or, without a token, who has signed in with this browser.

    Raises Unauthenticated or TooManyFailures, and Forbidden when the browser may have been made to send it by another site.
    """
    credential = _token() or ""
    session_id = "" if credential else browsers.session_id()
    if session_id:
        browsers.refuse_forged()
        with connected() as connection:
            return browser_sessions.authenticate(
                connection, session_id, address=request.remote_addr or "", request_id=g.request_id
            )
    if not credential:
        raise Unauthenticated(
            "The request carries no token; send it in the header `token`, or as `Authorization: Bearer …`."
        )
    with limited(limit, credential) as address:
        return tokens.authenticate_alone(credential, address=address, request_id=g.request_id)


@contextmanager
def limited(limit: FailureLimit, credential: str) -> Iterator[str]:
    """The block authenticates by this token or password; given the client's address. Raises TooManyFailures when the address is
    blocked, and counts a credential for which the block raises Unauthenticated."""
    address = request.remote_addr or ""
    limit.check(address, credential)
    try:
        yield address
    except Unauthenticated:
        limit.refused(address, credential)
        raise
    limit.accepted(credential)


def require(actor: Actor, needed: Needed) -> None:
    """Raises Forbidden when the actor lacks what is needed."""
    if needed == ADMIN:
        if not actor.admin:
            raise Forbidden("Only the admin may do this.")
    elif isinstance(needed, tuple):
        if not any(map(actor.may, needed)):
            raise Forbidden(f"This token lacks the privilege {' or '.join(needed)}.")
    elif needed != ANY_TOKEN:
        actor.require(Privilege(needed))


def _token() -> str | None:
    if token := request.headers.get("token"):
        return token
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return None
