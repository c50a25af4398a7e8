"""The task that tells a subscriber of an event."""

from __future__ import annotations

import uuid
from typing import Any

import structlog
from celery import Task

from pipeline_core.errors import Unavailable
from pipeline_core.hooks.deliver import deliver
from pipeline_core.metrics.totals import Metric, totals
from workers.app import app

log = structlog.get_logger(__name__)


@app.task(name="hook.deliver", bind=True)
def deliver_one(task: Task[Any, Any], delivery_id: str) -> None:
    """Try one delivery, if it is due."""
    structlog.contextvars.bind_contextvars(delivery_id=delivery_id)
    try:
        status = deliver(delivery_id, owner=f"{task.request.hostname}/{uuid.uuid4().hex}")
    except Unavailable as error:
        log.warning("delivery given up: the database is away", error=error.message)
        return
    if status:
        totals().count(Metric.DELIVERY_TRIES, (status,))
        log.info("delivery tried", status=str(status))
