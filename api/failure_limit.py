"""The limit on invalid credentials that one address may send."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from pipeline_core.common.client_network import client_network
from pipeline_core.errors import TooManyFailures

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


def _trim(memory: OrderedDict[str, deque[float]] | OrderedDict[bytes, None]) -> None:
    while len(memory) > MAX_ENTRIES:
        memory.popitem(last=False)
