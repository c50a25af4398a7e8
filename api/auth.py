"""Authentication: the token of a request or the session of a browser, and the limit on failed attempts."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

from flask import g, request

from api import browsers
from pipeline_core.auth import browser_sessions, tokens
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.client_network import client_network
from pipeline_core.database import connected
from pipeline_core.errors import Forbidden, TooManyFailures, Unauthenticated

ADMIN: Final = "admin"
"""Declared in place of a privilege for what only the admin may do."""
ANY_TOKEN: Final = "any token"
"""Declared in place of a privilege for what every valid token may do."""

Needed = Privilege | tuple[Privilege, ...] | Literal["admin", "any token"]
"""Of several privileges one is enough here; which of them it has to be is decided with the target."""

WINDOW_SECONDS = 60.0
"""The window within which failures are counted."""
MAX_ENTRIES = 10_000
"""How many addresses, and how many accepted credentials, are kept; the least recently used is dropped first."""


class FailureLimit:
    """Blocks an address (of IPv6: a /64) that has sent too many invalid credentials within `WINDOW_SECONDS`.

    The credentials of a blocked address are refused without being hashed and compared, except those that were accepted
    before: so nobody is locked out by somebody else behind the same address.
    """

    def __init__(self, failures: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._allowed = failures
        self._clock = clock
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)
        self._refused: OrderedDict[str, deque[float]] = OrderedDict()
        self._accepted: OrderedDict[bytes, None] = OrderedDict()

    def check(self, address: str, credential: str) -> None:
        """Raises TooManyFailures when the address is blocked and the credential was not accepted before."""
        failures = self._refused.get(client_network(address))
        if not failures or len(failures) < self._allowed:
            return
        with self._lock:
            left = failures[0] + WINDOW_SECONDS - self._clock()
            if left > 0 and self._digest(credential) not in self._accepted:
                raise TooManyFailures(
                    f"Too many requests with an invalid token came from {address}.", retry_after=int(left) + 1
                )

    def refused(self, address: str, credential: str) -> None:
        """Count a credential that was refused."""
        with self._lock:
            self._accepted.pop(self._digest(credential), None)
            # Only the newest are kept: the block ends when the oldest of them leaves the window.
            network = client_network(address)
            self._refused.setdefault(network, deque(maxlen=self._allowed)).append(self._clock())
            self._refused.move_to_end(network)
            _trim(self._refused)

    def accepted(self, credential: str) -> None:
        """Remember a credential that was accepted."""
        digest = self._digest(credential)
        if digest not in self._accepted:
            with self._lock:
                self._accepted[digest] = None
                _trim(self._accepted)

    def _digest(self, credential: str) -> bytes:
        return hmac.digest(self._key, credential.encode("utf-8", "replace"), hashlib.sha256)


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


def _trim(memory: OrderedDict[str, deque[float]] | OrderedDict[bytes, None]) -> None:
    while len(memory) > MAX_ENTRIES:
        memory.popitem(last=False)
