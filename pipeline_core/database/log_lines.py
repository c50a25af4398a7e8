"""Log lines about changes: they are noted in a transaction, and written once it has committed.

A change that is rolled back, or tried again, leaves no line that would not be true.
"""

from __future__ import annotations

from typing import Any

import structlog
from sqlalchemy.orm import Session

log = structlog.get_logger(__name__)

_NOTED = "log lines"


def note(session: Session, text: str, *, request_id: str, **fields: Any) -> None:
    """Write this line, at the level info, when the session's transaction commits, with the context that it is noted in.

    `request_id` is that of the request by which the thing came to be; a request or task that is under way names its own.
    """
    session.info.setdefault(_NOTED, []).append((text, _with_context(fields, request_id)))


def write_noted(session: Session) -> None:
    """Write the noted lines."""
    for text, fields in session.info.pop(_NOTED, ()):
        log.info(text, **fields)


def write(text: str, *, request_id: str, **fields: Any) -> None:
    """Write the line of a change that has been committed already."""
    log.info(text, **_with_context(fields, request_id))


def _with_context(fields: dict[str, Any], request_id: str) -> dict[str, Any]:
    context = structlog.contextvars.get_contextvars()
    return {**context, **fields, "request_id": context.get("request_id") or request_id}
