"""The time, always aware and in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The present."""
    return datetime.now(UTC)
