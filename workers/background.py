"""What the background worker runs beside its tasks, in threads of its own: the ticks, the watcher, and what keeps the
process that asks shadows.

If one of these threads ends by itself, the process ends with it: it is started again as a whole, and finds what is due.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import structlog
from celery import bootsteps

from pipeline_core.common.clock import now
from pipeline_core.operations import due_work, heartbeats
from workers.heartbeats import beat
from workers.names import SEND_QUEUE_PROBES, TICK_SECONDS, tick_name
from workers.shadow_process import ShadowProcess
from workers.ticker import Ticker
from workers.watch import lease_owner, watch

log = structlog.get_logger(__name__)


class Background(bootsteps.StartStopStep):
    """A thread that runs as long as the worker. `make` returns the thread's function, and another one that ends it."""

    name = ""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._end: Callable[[], object] = lambda: None

    def make(self, parent: Any) -> tuple[Callable[[], object], Callable[[], object]]:
        raise NotImplementedError

    def start(self, parent: Any) -> None:
        run, self._end = self.make(parent)
        self._thread = threading.Thread(target=self._run, args=(run,), name=self.name, daemon=True)
        self._thread.start()

    def stop(self, parent: Any) -> None:
        """End the thread, and wait for what it has begun."""
        self.terminate(parent)
        if self._thread:
            self._thread.join()

    def terminate(self, parent: Any) -> None:
        self._stopping = True
        self._end()

    def _run(self, run: Callable[[], object]) -> None:
        structlog.contextvars.bind_contextvars(thread=self.name)
        try:
            run()
        except Exception:
            log.exception("unexpected error")
        finally:
            if not self._stopping:
                log.critical("the process ends: one of its threads has ended")
                os._exit(os.EX_SOFTWARE)


class Ticks(Background):
    """Runs the ticks, and writes beat's heartbeat."""

    name = "ticks"

    def make(self, parent: Any) -> tuple[Callable[[], object], Callable[[], object]]:
        tasks = parent.app.tasks

        def send_queue_probes() -> None:
            tasks[SEND_QUEUE_PROBES]()
            beat(heartbeats.BEAT)

        ticker = Ticker(
            {**{name: tasks[name] for name in TICK_SECONDS}, SEND_QUEUE_PROBES: send_queue_probes},
            TICK_SECONDS,
            [tick_name(name) for name in due_work.TICKS],
            lambda: [tick_name(name) for name in due_work.find(now())],
        )
        return ticker.run, ticker.stop


class Shadows(Background):
    """Keeps the process that asks shadows (`workers.shadow_process`)."""

    name = "shadows"

    def make(self, parent: Any) -> tuple[Callable[[], object], Callable[[], object]]:
        process = ShadowProcess()
        return process.run, process.stop


class Watcher(Background):
    """Follows the cluster (`workers.watch`)."""

    name = "watcher"

    def make(self, parent: Any) -> tuple[Callable[[], object], Callable[[], object]]:
        stop = threading.Event()
        return lambda: watch(stop, lease_owner()), stop.set
