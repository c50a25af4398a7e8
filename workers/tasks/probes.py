"""The queue probes, which every worker answers."""

from __future__ import annotations

import structlog

from pipeline_core.errors import Unavailable
from pipeline_core.operations import queue_probes
from workers.app import app
from workers.names import QUEUE_PROBE, queues

log = structlog.get_logger(__name__)


@app.task(name=QUEUE_PROBE)
def probe_arrived(queue: str) -> None:
    """Note that a message has come through this queue. One that names no queue is not noted."""
    if queue not in queues():
        log.warning("queue probe refused: there is no such queue")
        return
    try:
        queue_probes.arrived(queue)
    except Unavailable as error:
        log.warning("queue probe not recorded: the database is unavailable", queue=queue, error=error.message)
