"""Requests to a plugin: the endpoint, the body, the headers, and the signature."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from standardwebhooks import Webhook

from pipeline_core.common import tracing
from pipeline_core.common.clock import now
from pipeline_core.errors import WrongParameter
from pipeline_core.plugins.types import PluginType

SECRET_PREFIX = "whsec_"
SECRET_SIZES = range(24, 65)
"""How many bytes a signing secret may have, by the Standard Webhooks specification."""
_VISIBLE = "".join(chr(code) for code in range(0x21, 0x7F))


@dataclass(frozen=True, slots=True)
class Packet:
    """What a stage sends to its plugins. `job` is the user's job for a translator and the TaskSet for all others."""

    factors: Mapping[str, Sequence[Mapping[str, Any]]]
    header: Mapping[str, Any]
    job: Mapping[str, Any]

    def encode(self) -> bytes:
        """The request's body; encode once and send it to every plugin of the stage.

        ASCII only, so that unpaired surrogates, which UTF-8 cannot encode, are escaped. Raises ValueError on NaN and infinities.
        """
        document = {"factors": self.factors, "header": self.header, "job": self.job}
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


_SHORTEST_SECRET = 4
"""Characters; what is shorter stands in too many words to be masked in them."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The part of a plugin that a call needs. `key` is unique among plugins; the secrets are in plain text.

    `timeout_seconds` covers one attempt, from resolving the name to the answer's last byte.
    """

    key: str
    type: PluginType
    address: str
    authorization: str = field(default="", repr=False)
    signing_secret: str = field(default="", repr=False)
    timeout_seconds: float = 30.0
    max_attempts: int = 3

    @property
    def secrets(self) -> list[str]:
        """What must not be shown, should the plugin repeat what it was sent; the longest first."""
        credentials = self.authorization.partition(" ")[2].strip()
        words = {self.authorization, credentials, self.signing_secret}
        return sorted((word for word in words if len(word) >= _SHORTEST_SECRET), key=len, reverse=True)


@dataclass(frozen=True, slots=True)
class PluginCall:
    """One plugin call of a job and a stage. `call_number` grows when the plugin is called again after a suspension."""

    job_id: str
    stage: str
    plugin_key: str
    call_number: int = 1

    @property
    def idempotency_key(self) -> str:
        """`{jobID}:{stage}:{plugin key}:{n}`, the same for every attempt; percent-encoded where a header needs it."""
        return f"{header_text(self.job_id)}:{self.stage}:{header_text(self.plugin_key)}:{self.call_number}"


def header_text(text: str) -> str:
    """`text` with all characters percent-encoded that are not visible ASCII."""
    return quote(text, safe=_VISIBLE, errors="replace")


def call_headers(
    endpoint: Endpoint, body: bytes, *, job_id: str, idempotency_key: str, request_id: str, traceparent: str = ""
) -> dict[str, str]:
    """All headers of one attempt, signed as of now if the endpoint has a secret."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "*/*",
        "User-Agent": "pipeline",
        "Idempotency-Key": idempotency_key,
        "X-Job-ID": header_text(job_id),
    }
    if request_id:
        headers["X-Request-ID"] = header_text(request_id)
    if traceparent:
        headers[tracing.HEADER] = traceparent
    if endpoint.authorization:
        headers["Authorization"] = endpoint.authorization
    if endpoint.signing_secret:
        headers |= signature_headers(endpoint.signing_secret, idempotency_key, body, now())
    return headers


def check_secret(secret: str, field: str = "signingSecret") -> None:
    """Raises WrongParameter, without naming the secret, unless it is `whsec_` and the base64 of 24 to 64 bytes."""
    if not _valid(secret):
        sizes = f"{SECRET_SIZES.start} to {SECRET_SIZES.stop - 1}"
        problem = f"must be {SECRET_PREFIX!r} followed by the base64 of {sizes} random bytes"
        raise WrongParameter(f"{field} {problem}", errors={field: [problem]})


def _valid(secret: str) -> bool:
    encoded = secret.removeprefix(SECRET_PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return secret.startswith(SECRET_PREFIX) and len(key) in SECRET_SIZES


def signature_headers(secret: str, message_id: str, body: bytes, moment: datetime) -> dict[str, str]:
    """The three `webhook-*` headers of one attempt by Standard Webhooks (https://www.standardwebhooks.com).

    `moment` is an aware time in UTC.
    """
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, moment, body.decode()),
    }
