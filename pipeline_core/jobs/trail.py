"""The trail of a job (its plugin calls and resumes, and what shadows answered), and its events."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.database.engine import to_json
from pipeline_core.database.models import Delivery, Event, ShadowAnswer, TrailRow
from pipeline_core.jobs import views
from pipeline_core.jobs.queries import visible
from pipeline_core.plugins.types import Mode
from pipeline_core.taskset.masking import MASK, masked

MAX_SHOWN_BYTES = 4 * 1024 * 1024
"""How much of factors and changes the trail of a job shows in all, as compact JSON: a plugin's answer may have 8 MiB."""

# The value of an environment variable by its path: such an operation does not contain the variable's name.
_ENV_VALUE = re.compile(r"/env/(\d+|-)/value$")


def trail(session: Session, job_id: str, actor: Actor) -> list[dict[str, Any]]:
    """Every plugin call of a job and every resume, in order, and then what shadows answered. Raises NotFound."""
    visible(session, job_id, actor)
    entries = session.scalars(select(TrailRow).where(TrailRow.job_id == job_id).order_by(TrailRow.id))
    shadows = session.scalars(select(ShadowAnswer).where(ShadowAnswer.job_id == job_id).order_by(ShadowAnswer.id))
    return bounded(
        [
            *(
                {**views.trail_entry(entry), "patch": masked_patch(entry.patch), "mode": Mode.ACTIVE}
                for entry in entries
            ),
            *({**views.shadow_answer(one), "patch": masked_patch(one.patch), "mode": Mode.SHADOW} for one in shadows),
        ]
    )


def bounded(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries with as many factors and changes as fit into MAX_SHOWN_BYTES in all; `leftOut` says how many did not."""
    left = MAX_SHOWN_BYTES
    for entry in entries:
        left_out = 0
        for name in ("factors", "patch"):
            whole = entry[name] or []
            shown = []
            for item in whole:
                left -= len(to_json(item).encode("utf-8", "surrogatepass"))
                if left < 0:
                    break
                shown.append(item)
            if len(shown) < len(whole):
                entry[name] = shown
                left_out += len(whole) - len(shown)
        if left_out:
            entry["leftOut"] = left_out
    return entries


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
