"""Signs of life of Celery's processes, given where they themselves beat, so that a process that hangs gives none: a
worker's by the loop that takes messages, beat's by its sending of the canary.
"""

from __future__ import annotations

import time
from typing import Any

import structlog
from celery.signals import beat_init, before_task_publish, heartbeat_sent, worker_shutdown

from pipeline_core import signs
from pipeline_core.database.engine import engine
from pipeline_core.errors import Unavailable

log = structlog.get_logger(__name__)

CANARY = "tick.canary"
"""The tick that beat's sign of life goes with."""

_next_at: dict[str, float] = {}


def give(name: str) -> None:
    """Give this process's sign of life, unless it was given a moment ago. Never raises because of the database."""
    if time.monotonic() < _next_at.get(name, 0.0):
        return
    _next_at[name] = time.monotonic() + signs.EVERY_SECONDS
    try:
        signs.give(name)
    except Unavailable as error:
        log.warning("no sign of life given", name=name, error=error.message)
    finally:
        # This process forks: no connection may be open when it does.
        engine().dispose()


@heartbeat_sent.connect
def _worker_lives(sender: Any, **_: Any) -> None:
    give(f"{signs.WORKER}{sender.eventer.hostname}")


@worker_shutdown.connect
def _worker_ends(sender: Any, **_: Any) -> None:
    try:
        signs.withdraw(f"{signs.WORKER}{sender.hostname}")
    except Unavailable as error:
        log.warning("sign of life not withdrawn", error=error.message)


@beat_init.connect
def _beat_begins(**_: Any) -> None:
    before_task_publish.connect(_beat_lives, sender=CANARY, weak=False)


def _beat_lives(**_: Any) -> None:
    give(signs.BEAT)
