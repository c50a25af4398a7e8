"""The task that sends a delivery to its subscriber."""

from __future__ import annotations

import uuid
from typing import Any

import structlog
from celery import Task

from pipeline_core.errors import Unavailable
from pipeline_core.hooks.sending import deliver
from pipeline_core.metrics.totals import Metric, totals
from workers.app import app
from workers.names import DELIVER

log = structlog.get_logger(__name__)


@app.task(name=DELIVER, bind=True)
def deliver_one(task: Task[Any, Any], delivery_id: str) -> None:
    """Make one attempt of a delivery, if it is due."""
    structlog.contextvars.bind_contextvars(delivery_id=delivery_id)
    try:
        status = deliver(delivery_id, owner=f"{task.request.hostname}/{uuid.uuid4().hex}")
    except Unavailable as error:
        log.warning("delivery postponed: the database is unavailable", error=error.message)
        return
    if status:
        totals().count(Metric.DELIVERY_ATTEMPTS, (status,))
        log.info("delivery attempted", status=str(status))
