"""HTTP requests and answers as values, the same for WSGI, ASGI and the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline_plugin.answers import encoded

MAX_BODY = 64 * 1024 * 1024
"""Bytes that a request may have; the service sends far less."""
HEALTH = "/healthz"


@dataclass(frozen=True)
class Request:
    """An HTTP request; `headers` by lower-case names."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """An HTTP answer. `settled`: the same question gets it again."""

    status: int
    body: bytes
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    settled: bool = False

    @classmethod
    def error(cls, status: int, message: str) -> Reply:
        """An answer that says what was wrong with the request."""
        return cls(status, encoded({"error": message}))

    def all_headers(self) -> dict[str, str]:
        """The headers, with those of the body."""
        return {"Content-Type": self.media_type, "Content-Length": str(len(self.body)), **self.headers}


TOO_LARGE = Reply.error(413, f"the body is larger than {MAX_BODY} bytes")


def without_call(request: Request, stopping: bool) -> Reply | None:
    """The answer to what is no call of a plugin: the health endpoint, and other methods than POST."""
    if request.method in ("GET", "HEAD") and request.path == HEALTH:
        return Reply(503, b'{"status":"stopping"}') if stopping else Reply(200, b'{"status":"ok"}')
    if request.method != "POST":
        return Reply(405, encoded({"error": "send a packet with POST"}), headers={"Allow": "POST"})
    return None
