"""How a delivery comes into being: in the transaction of the change that it tells of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from pipeline_core.common.ids import new_delivery_id
from pipeline_core.database import wakeups
from pipeline_core.database.models import Delivery, DeliveryStatus
from pipeline_core.settings import settings


def owe(
    session: Session,
    subject_id: str,
    sequence: int,
    plugin_key: str,
    moment: datetime,
    *,
    event_id: int | None = None,
    body: Mapping[str, Any] | None = None,
) -> None:
    """Owe a subscriber the change of that number of a subject: an event of a job, or an alert, which has its `body`."""
    delivery_id = new_delivery_id(moment)
    session.execute(
        insert(Delivery).values(
            id=delivery_id,
            event_id=event_id,
            subject_id=subject_id,
            sequence=sequence,
            plugin_key=plugin_key,
            body=body,
            status=DeliveryStatus.WAITING,
            created_at=moment,
            next_at=moment,
            published_at=moment,
            give_up_at=moment + timedelta(seconds=settings().hook_give_up_seconds),
        )
    )
    wakeups.after_commit(session, wakeups.DeliveryDue(delivery_id))
