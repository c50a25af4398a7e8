"""The schedule of a stored flow: what a change of its definition means for it, pausing it, and how it stands."""

from __future__ import annotations

from datetime import datetime

from pipeline_core.database.models import StoredFlow
from pipeline_core.flows.flow import Flow
from pipeline_core.flows.points import first_from


def rescheduled(flow: StoredFlow, before: Flow | None, after: Flow, moment: datetime, *, imported: bool) -> None:
    """Set on a flow's row what follows for its schedule from the definition that it has since `moment`.

    `before` is the definition that it had, None for a new flow. Nothing changes for a schedule that stays as it is. One
    that was set or changed begins anew at `cronjob_start_time`, or at the moment, and comes in paused when it is
    `imported`. A start that alone was moved back lets the points be made up that have no run; one moved on lets those be
    that it passes.
    """
    flow.fault, flow.faulted_at = "", None
    if after.schedule is None:
        flow.paused, flow.scheduled_since, flow.next_at, flow.replay_until = False, None, None, None
        return
    known = before if before and before.schedule == after.schedule else None
    if known and known.backfill_start == after.backfill_start:
        return
    since = flow.scheduled_since if known and flow.scheduled_since else moment
    start = after.backfill_start or since
    if known and flow.next_at and start >= (known.backfill_start or since):
        start = max(start, flow.next_at)
    flow.scheduled_since = since
    flow.next_at = first_from(after.schedule, start)
    flow.replay_until = None
    flow.paused = flow.paused or imported
