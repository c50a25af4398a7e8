"""IDs of jobs and of deliveries."""

from __future__ import annotations

from datetime import datetime

from pipeline_core.ids import new_id


def new_job_id(moment: datetime) -> str:
    """An ID for a job submitted at this moment."""
    return new_id("j", moment)


def new_delivery_id(moment: datetime) -> str:
    """An ID for a delivery made at this moment; it serves as `webhook-id`."""
    return new_id("d", moment)
