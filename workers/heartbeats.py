"""Signs of life of Celery's processes, given where they themselves beat, so that a process that hangs gives none: a
worker's by the loop that takes messages, beat's by its sending of the tick that sends canaries.
"""

from __future__ import annotations

from typing import Any

import structlog
from celery import bootsteps
from celery.signals import beat_init, before_task_publish

from pipeline_core.database.engine import engine
from pipeline_core.errors import Unavailable
from pipeline_core.operations import heartbeats
from workers import alive

log = structlog.get_logger(__name__)

CANARIES = "tick.canaries"
"""The tick that beat's sign of life goes with."""


class Presence(bootsteps.StartStopStep):
    """Gives the worker's sign of life, and withdraws it when the worker is stopped, however it is."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._repeated: Any = None

    def start(self, parent: Any) -> None:
        name = f"{heartbeats.WORKER}{parent.hostname}"
        give(name)
        self._repeated = parent.timer.call_repeatedly(heartbeats.EVERY_SECONDS, give, (name,))

    def stop(self, parent: Any) -> None:
        if self._repeated is not None:
            self._repeated.cancel()
        try:
            heartbeats.withdraw(f"{heartbeats.WORKER}{parent.hostname}")
        except Unavailable as error:
            log.warning("sign of life not withdrawn", error=error.message)

    terminate = stop


def give(name: str) -> None:
    """Give this process's sign of life. Never raises because of the database."""
    alive.show()
    try:
        heartbeats.give(name)
    except Unavailable as error:
        log.warning("no sign of life given", name=name, error=error.message)
    finally:
        # This process forks: no connection may be open when it does.
        engine().dispose()


@beat_init.connect
def _beat_begins(**_: Any) -> None:
    alive.show()
    before_task_publish.connect(_beat_lives, sender=CANARIES, weak=False)


def _beat_lives(**_: Any) -> None:
    give(heartbeats.BEAT)
