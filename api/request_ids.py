"""The ID of a request: taken over from whoever sent it, or made; in every log line below, and in the answer."""

from __future__ import annotations

import re
import uuid

import structlog
from flask import Flask, Response, g, request

HEADER = "X-Request-ID"

_USABLE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


def install(app: Flask) -> None:
    """Give every request of this application its ID, as `g.request_id`."""
    app.before_request(_begin)
    app.after_request(_answer)


def _begin() -> None:
    sent = request.headers.get(HEADER, "")
    g.request_id = sent if _USABLE.fullmatch(sent) else uuid.uuid4().hex
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=g.request_id)


def _answer(response: Response) -> Response:
    response.headers[HEADER] = g.request_id
    return response
