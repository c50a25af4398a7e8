"""The headers of a call."""

from __future__ import annotations

from pipeline_core.common.clock import now
from pipeline_core.plugins.packet import Endpoint, header_text
from pipeline_core.plugins.signing import signature_headers


def call_headers(
    endpoint: Endpoint, body: bytes, *, job_id: str, idempotency_key: str, request_id: str
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
    if endpoint.authorization:
        headers["Authorization"] = endpoint.authorization
    if endpoint.signing_secret:
        headers |= signature_headers(endpoint.signing_secret, idempotency_key, body, now())
    return headers
