"""The header Idempotency-Key: documented, checked and read."""

from __future__ import annotations

import hashlib
import re

from flask import request

from api.blueprint import Call
from pipeline_core.auth.idempotency import RepeatableRequest
from pipeline_core.errors import WrongParameter

_KEY = re.compile(r"[\x21-\x7e]{1,255}")

KEY_HEADER = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "pattern": f"^{_KEY.pattern}$"},
    "description": "The same key, token, path and body again is answered with what the first made. Kept for 24 hours.",
}


def repeatable(call: Call) -> RepeatableRequest | None:
    """The request, if its client may send it again. Raises WrongParameter for a key of another form."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise WrongParameter("The header Idempotency-Key must be 1 to 255 visible ASCII characters.")
    return RepeatableRequest(key, hashlib.sha256(f"{request.path.rstrip('/')}\0".encode() + call.raw).hexdigest())
