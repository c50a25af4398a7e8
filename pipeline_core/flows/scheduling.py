"""The schedule of a stored flow."""

from __future__ import annotations

from datetime import datetime

from pipeline_core.database.models import StoredFlow
from pipeline_core.flows.flow import Flow


def rescheduled(flow: StoredFlow, before: Flow | None, after: Flow, moment: datetime, *, imported: bool) -> None:
    """Set on a flow's row what follows for its schedule from the definition that it has since `moment`."""
    if after.schedule is None:
        flow.paused, flow.scheduled_since, flow.next_at = False, None, None
        return
    if before and before.schedule == after.schedule and before.backfill_start == after.backfill_start:
        return
    flow.scheduled_since = moment
    flow.next_at = next(after.schedule.after(after.backfill_start or moment), None)
    flow.paused = flow.paused or imported
