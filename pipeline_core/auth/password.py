"""The admin's password: what may be one, and whether a text is it."""

from __future__ import annotations

import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from pipeline_core.errors import ConfigurationError
from pipeline_core.runtime import part
from pipeline_core.settings import settings
from pipeline_core.validation.texts import header_value

DEVELOPMENT_PASSWORD = "admin"
LENGTH = range(8, 129)
_TOKEN = re.compile(r"[A-Za-z0-9]{24}")
_hasher = PasswordHasher()


def looks_like_token(text: str) -> bool:
    """Whether the text has the form of a random token; such a text is never compared with the password."""
    return _TOKEN.fullmatch(text) is not None


def error_of(text: str) -> str | None:
    """Why the text cannot be the admin's password, or None."""
    if len(text) not in LENGTH:
        return f"must be {LENGTH[0]} to {LENGTH[-1]} characters"
    if looks_like_token(text):
        return "must not be 24 letters and digits: it would be taken for a token"
    if not header_value(text):
        return "must be printable ASCII without blanks around it: it is sent in a header"
    return None


def hashed(text: str) -> str:
    """What is stored of a password (argon2id)."""
    return _hasher.hash(text)


def accepts(stored: str | None, text: str) -> bool:
    """Whether the text is the admin's password: the one `stored`, hashed, or, while none is, the configured one."""
    if stored is None:
        expected = initial_password()
        return expected is not None and hmac.compare_digest(_bytes(expected), _bytes(text))
    if len(text) not in LENGTH or not header_value(text):
        return False
    return _verifications().get(stored, text)


def still_counts(hash: str, stored: str | None) -> bool:
    """Whether the password that was hashed to `hash` when somebody signed in is the admin's still. `stored` as in `accepts`."""
    if stored is not None:
        return hmac.compare_digest(hash, stored)
    expected = initial_password()
    return expected is not None and _verifications().get(hash, expected)


def initial_password() -> str | None:
    """The password that counts while none is stored; None when there is none."""
    configured = settings()
    return configured.admin_password or (DEVELOPMENT_PASSWORD if configured.development else None)


def check_configured() -> None:
    """Raises ConfigurationError when no password counts although none is stored, or one that cannot be used."""
    configured = settings().admin_password
    if configured and (error := error_of(configured)):
        raise ConfigurationError(f"PIPELINE_ADMIN_PASSWORD {error}")
    if initial_password() is None:
        raise ConfigurationError(
            "There is no admin password: set PIPELINE_ADMIN_PASSWORD, or change the password in a development run; "
            f'"{DEVELOPMENT_PASSWORD}" counts only where `pipeline up` listens on a loopback address'
        )


class VerificationCache:
    """Whether texts were the password, cached for a while: argon2 is slow on purpose, and every request asks.

    A verdict counts for one stored hash, so for one version of the password. The texts themselves are not kept.
    """

    def __init__(self, seconds: float = 60.0, most: int = 256) -> None:
        self._seconds = seconds
        self._most = most
        self._key = secrets.token_bytes(32)
        self._entries: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._hashing = threading.Lock()

    def get(self, hash: str, text: str) -> bool:
        """The verdict on `text`, by argon2 when none is cached."""
        mark = hmac.digest(self._key, hash.encode() + _bytes(text), "sha256")
        if (verdict := self._cached(mark)) is not None:
            return verdict
        # One at a time: of many requests that come with a new password at once, the first finds out for all.
        with self._hashing:
            if (verdict := self._cached(mark)) is not None:
                return verdict
            verdict = _verify(hash, text)
            with self._lock:
                self._entries[mark] = (verdict, time.monotonic() + self._seconds)
                while len(self._entries) > self._most:
                    self._entries.popitem(last=False)
            return verdict

    def _cached(self, mark: bytes) -> bool | None:
        with self._lock:
            verdict, until = self._entries.get(mark, (False, 0.0))
        return verdict if time.monotonic() < until else None


@part
def _verifications() -> VerificationCache:
    return VerificationCache()


def _verify(hash: str, text: str) -> bool:
    try:
        return _hasher.verify(hash, text)
    except (VerificationError, InvalidHashError):
        return False


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
