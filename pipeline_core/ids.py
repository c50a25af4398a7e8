"""IDs: a letter that says what it is, and a lower-case ULID. DNS labels that sort by the time of their creation."""

from __future__ import annotations

from datetime import datetime

from ulid import ULID


def new_id(letter: str, moment: datetime) -> str:
    """An ID for something of this kind that is made at this moment."""
    return f"{letter}{ULID.from_datetime(moment)}".lower()
