"""The task that shows that a queue is served."""

from __future__ import annotations

import structlog

from pipeline_core.errors import Unavailable
from pipeline_core.operations import queue_probes
from workers.app import CANARY, app

log = structlog.get_logger(__name__)


@app.task(name=CANARY)
def arrive(queue: str) -> None:
    """Say that this queue's messages arrive."""
    try:
        queue_probes.arrived(queue)
    except Unavailable as error:
        log.warning("canary lost: the database is away", queue=queue, error=error.message)
