"""Heartbeats of Celery's processes. A worker writes it from its event loop, first when it takes messages; beat when it has sent
its first tick, and then with each tick of the queue probes. So a process that is not connected, or hangs, writes none.
"""

from __future__ import annotations

from typing import Any

import structlog
from celery import bootsteps
from celery.concurrency.thread import TaskPool as ThreadPool
from celery.signals import after_task_publish, beat_init, worker_ready

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
        liveness.touch()
        self._repeated = parent.timer.call_repeatedly(heartbeats.EVERY_SECONDS, _worker_beats, (parent,))

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


@worker_ready.connect
def _worker_takes_messages(sender: Any, **_: Any) -> None:
    _worker_beats(sender.controller)


def _worker_beats(worker: Any) -> None:
    # Not by the pool that forks, which takes a megabyte in each process that imports it.
    write = beat if issubclass(worker.pool_cls, ThreadPool) else beat_before_fork
    write(f"{heartbeats.WORKER}{worker.hostname}")


@beat_init.connect
def _beat_begins(**_: Any) -> None:
    liveness.touch()
    after_task_publish.connect(_beat_sent_its_first, weak=False)
    after_task_publish.connect(_beat_sent, sender=SEND_QUEUE_PROBES, weak=False)


def _beat_sent_its_first(**_: Any) -> None:
    after_task_publish.disconnect(_beat_sent_its_first)
    _beat_sent()


def _beat_sent(**_: Any) -> None:
    beat(heartbeats.BEAT)
