"""IDs of flows, runs and backfills: a letter that says what it is, and a lower-case ULID."""

from __future__ import annotations

from datetime import datetime

from ulid import ULID


def new_flow_id(moment: datetime) -> str:
    """An ID for a flow made at this moment."""
    return f"f{ULID.from_datetime(moment)}".lower()


def new_run_id(moment: datetime) -> str:
    """An ID for a run made at this moment."""
    return f"r{ULID.from_datetime(moment)}".lower()


def new_backfill_id(moment: datetime) -> str:
    """An ID for a backfill made at this moment."""
    return f"b{ULID.from_datetime(moment)}".lower()
