"""IDs: a letter that says what it is, and a lower-case ULID. DNS labels that sort by the time of their creation."""

from __future__ import annotations

from datetime import datetime

from ulid import ULID


def new_job_id(moment: datetime) -> str:
    """An ID for a job submitted at this moment."""
    return f"j{ULID.from_datetime(moment)}".lower()


def new_delivery_id(moment: datetime) -> str:
    """An ID for a delivery made at this moment; it serves as `webhook-id`."""
    return f"d{ULID.from_datetime(moment)}".lower()
