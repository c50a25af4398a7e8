"""Points in time, always timezone-aware and in UTC: the current time, and conversion from and to RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def now() -> datetime:
    """The current time."""
    return datetime.now(UTC)


def rfc3339(moment: datetime | None) -> str | None:
    """An aware time as RFC 3339 in UTC with `Z`, with microseconds if it has any; None for None."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_rfc3339(text: str) -> datetime:
    """The time in an RFC 3339 text, in UTC. Raises ValueError when the text is not RFC 3339 or out of range."""
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"{text!r} is no RFC 3339 time")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is out of range") from error
