"""Signatures by Standard Webhooks (https://www.standardwebhooks.com), by which a plugin knows who calls it."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime

from standardwebhooks import Webhook

from pipeline_core.errors import WrongParameter

PREFIX = "whsec_"
SIZES = range(24, 65)
"""How many bytes a secret may have, by the Standard Webhooks specification."""


def check_secret(secret: str, field: str = "signingSecret") -> None:
    """Raises WrongParameter, without naming the secret, unless it is `whsec_` and the base64 of 24 to 64 bytes."""
    if not _valid(secret):
        problem = f"must be {PREFIX!r} followed by the base64 of {SIZES.start} to {SIZES.stop - 1} random bytes"
        raise WrongParameter(f"{field} {problem}", errors={field: [problem]})


def _valid(secret: str) -> bool:
    encoded = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return secret.startswith(PREFIX) and len(key) in SIZES


def signature_headers(secret: str, message_id: str, body: bytes, now: datetime) -> dict[str, str]:
    """The three `webhook-*` headers of one attempt; `now` is an aware time in UTC."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, now, body.decode()),
    }
