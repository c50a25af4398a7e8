"""The trail of a job (its plugin calls and resumes), and its events."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database.models import Delivery, Event, TrailRow
from pipeline_core.jobs import views
from pipeline_core.jobs.queries import visible
from pipeline_core.taskset.masking import MASK, masked

# The value of an environment variable by its path: such an operation does not contain the variable's name.
_ENV_VALUE = re.compile(r"/env/(\d+|-)/value$")


def trail(session: Session, job_id: str, actor: Actor) -> list[dict[str, Any]]:
    """Every plugin call of a job and every resume, in order. Raises NotFound."""
    visible(session, job_id, actor)
    entries = session.scalars(select(TrailRow).where(TrailRow.job_id == job_id).order_by(TrailRow.id))
    return [{**views.trail_entry(entry), "patch": masked_patch(entry.patch)} for entry in entries]


def events(session: Session, job_id: str, actor: Actor) -> list[dict[str, Any]]:
    """Every change of a job's state, in order, with its deliveries. Raises NotFound."""
    visible(session, job_id, actor)
    deliveries: dict[int | None, list[Delivery]] = defaultdict(list)
    for delivery in session.scalars(
        select(Delivery).where(Delivery.subject_id == job_id).order_by(Delivery.plugin_key)
    ):
        deliveries[delivery.event_id].append(delivery)
    changes = session.scalars(select(Event).where(Event.job_id == job_id).order_by(Event.sequence))
    return [views.event(change, deliveries[change.id]) for change in changes]


def masked_patch(patch: Any) -> Any:
    """An RFC 6902 patch in which values of environment variables whose names look secret are masked."""
    if not isinstance(patch, list):
        return patch
    return [
        {**operation, "value": MASK if _ENV_VALUE.search(operation.get("path", "")) else masked(operation["value"])}
        if "value" in operation
        else operation
        for operation in patch
    ]
