"""Who is asking: the token of a request, and the limit on guessing."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Literal

from flask import g, request

from pipeline_core.auth import tokens
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.database import connected
from pipeline_core.errors import Forbidden, TooManyFailures, Unauthenticated

ADMIN: Final = "admin"
"""Stands where a privilege stands, for what only the admin may do."""

Needed = Privilege | Literal["admin"]

WINDOW_SECONDS = 60.0
"""The span within which failures are counted."""
ADDRESSES = 10_000
"""Addresses and credentials that are remembered; the longest unseen is forgotten first."""


class FailureLimit:
    """Counts invalid credentials by address, of which so many may come within `WINDOW_SECONDS`.

    A blocked address is not heard any more, so that it cannot make the server hash its guesses; only credentials that
    have worked before are, so that nobody is locked out by someone behind the same address.
    """

    def __init__(self, failures: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = failures
        self._clock = clock
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def check(self, address: str, credential: str) -> None:
        """Raises TooManyFailures when the address is blocked and the credential is not one that has worked."""
        failures = self._failures.get(address)
        if not failures or len(failures) < self._most:
            return
        with self._lock:
            left = failures[0] + WINDOW_SECONDS - self._clock()
            if left > 0 and self._digest(credential) not in self._known:
                raise TooManyFailures(
                    f"Too many requests with an invalid token came from {address}.", retry_after=int(left) + 1
                )

    def failed(self, address: str, credential: str) -> None:
        """Note a credential that was refused."""
        with self._lock:
            self._known.pop(self._digest(credential), None)
            # The newest are enough: the oldest of them says how long the block lasts.
            self._failures.setdefault(address, deque(maxlen=self._most)).append(self._clock())
            self._failures.move_to_end(address)
            _trim(self._failures)

    def worked(self, credential: str) -> None:
        """Note a credential that was accepted."""
        digest = self._digest(credential)
        if digest not in self._known:
            with self._lock:
                self._known[digest] = None
                _trim(self._known)

    def _digest(self, credential: str) -> bytes:
        return hmac.digest(self._key, credential.encode("utf-8", "replace"), hashlib.sha256)


def authenticate(limit: FailureLimit) -> Actor:
    """The bearer of the request's token. Raises Unauthenticated or TooManyFailures."""
    credential = _credential()
    address = request.remote_addr or ""
    limit.check(address, credential)
    try:
        with connected() as connection:
            actor = tokens.authenticate(connection, credential, address=address, request_id=g.request_id)
    except Unauthenticated:
        limit.failed(address, credential)
        raise
    limit.worked(credential)
    return actor


def require(actor: Actor, needed: Needed) -> None:
    """Raises Forbidden when the actor lacks what is needed."""
    if needed != ADMIN:
        actor.require(Privilege(needed))
    elif not actor.admin:
        raise Forbidden("Only the admin may do this.")


def _credential() -> str:
    if token := request.headers.get("token"):
        return token
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    raise Unauthenticated(
        "The request carries no token; send it in the header `token`, or as `Authorization: Bearer …`."
    )


def _trim(memory: OrderedDict[str, deque[float]] | OrderedDict[bytes, None]) -> None:
    while len(memory) > ADDRESSES:
        memory.popitem(last=False)
