"""Whether a request was signed by the service: Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping

PREFIX = "whsec_"
TOLERANCE = 300
"""How many seconds a signature may be old, or ahead."""


def secret_key(secret: str) -> bytes:
    """The key in a signing secret. Raises ValueError, without naming the secret, for what is none."""
    encoded = secret[len(PREFIX) :]
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not 24 <= len(key) <= 64:
        raise ValueError(f"the signing secret is not {PREFIX!r} followed by the base64 of 24 to 64 bytes")
    return key


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """The `webhook-signature` of a body, in its version 1."""
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def is_signed(key: bytes, headers: Mapping[str, str], body: bytes, moment: float | None = None) -> bool:
    """Whether the holder of `key` signed this body, at most TOLERANCE seconds ago. `headers` by lower-case names."""
    timestamp = headers.get("webhook-timestamp", "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        return False
    if abs((time.time() if moment is None else moment) - int(timestamp)) > TOLERANCE:
        return False
    expected = signature(key, headers.get("webhook-id", ""), timestamp, body).encode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(expected, one.encode("utf-8", "replace")) for one in given)
