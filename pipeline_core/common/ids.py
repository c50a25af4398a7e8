"""IDs: a letter for the kind of thing and a lower-case ULID. They are DNS labels and sort by the time of creation."""

from __future__ import annotations

from datetime import datetime

from ulid import ULID


def new_job_id(moment: datetime) -> str:
    """An ID for a job submitted at this moment."""
    return _new_id("j", moment)


def new_delivery_id(moment: datetime) -> str:
    """An ID for a delivery created at this moment; it is also the `webhook-id`."""
    return _new_id("d", moment)


def new_flow_id(moment: datetime) -> str:
    """An ID for a flow created at this moment."""
    return _new_id("f", moment)


def new_run_id(moment: datetime) -> str:
    """An ID for a run created at this moment."""
    return _new_id("r", moment)


def new_backfill_id(moment: datetime) -> str:
    """An ID for a backfill created at this moment."""
    return _new_id("b", moment)


def _new_id(letter: str, moment: datetime) -> str:
    return f"{letter}{ULID.from_datetime(moment)}".lower()
