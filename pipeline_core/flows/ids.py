"""IDs of flows, runs and backfills."""

from __future__ import annotations

from datetime import datetime

from pipeline_core.ids import new_id


def new_flow_id(moment: datetime) -> str:
    """An ID for a flow made at this moment."""
    return new_id("f", moment)


def new_run_id(moment: datetime) -> str:
    """An ID for a run made at this moment."""
    return new_id("r", moment)


def new_backfill_id(moment: datetime) -> str:
    """An ID for a backfill made at this moment."""
    return new_id("b", moment)
