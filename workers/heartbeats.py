"""Heartbeats of Celery's processes. A worker writes it from its event loop, beat when it sends the tick of the queue probes, so
that a process that hangs writes none.
"""

from __future__ import annotations

from typing import Any

import structlog
from celery import bootsteps
from celery.concurrency.prefork import TaskPool as ForkedPool
from celery.signals import beat_init, before_task_publish

from pipeline_core.database.engine import engine
from pipeline_core.errors import Unavailable
from pipeline_core.operations import heartbeats
from workers import liveness
from workers.names import SEND_QUEUE_PROBES

log = structlog.get_logger(__name__)


class WorkerHeartbeat(bootsteps.StartStopStep):
    """Writes the worker's heartbeat, and deletes it when the worker stops."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._repeated: Any = None

    def start(self, parent: Any) -> None:
        name = f"{heartbeats.WORKER}{parent.hostname}"
        write = beat_before_fork if issubclass(parent.pool_cls, ForkedPool) else beat
        write(name)
        self._repeated = parent.timer.call_repeatedly(heartbeats.EVERY_SECONDS, write, (name,))

    def stop(self, parent: Any) -> None:
        if self._repeated is not None:
            self._repeated.cancel()
        try:
            heartbeats.delete(f"{heartbeats.WORKER}{parent.hostname}")
        except Unavailable as error:
            log.warning("heartbeat not deleted", error=error.message)

    terminate = stop


def beat(name: str) -> None:
    """Write this process's heartbeat, and touch its liveness file. Never raises because of the database."""
    liveness.touch()
    try:
        heartbeats.beat(name)
    except Unavailable as error:
        log.warning("heartbeat not written", name=name, error=error.message)


def beat_before_fork(name: str) -> None:
    """The same in a process that forks: no connection may be open when it does."""
    beat(name)
    engine().dispose()


@beat_init.connect
def _beat_begins(**_: Any) -> None:
    liveness.touch()
    before_task_publish.connect(_beat_sends, sender=SEND_QUEUE_PROBES, weak=False)


def _beat_sends(**_: Any) -> None:
    beat(heartbeats.BEAT)
