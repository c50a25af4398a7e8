"""Runs the ticks in the process that it is in: what beat and a housekeeping worker do, without messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import structlog

log = structlog.get_logger(__name__)

THREADS = 4
"""How many ticks run at a time, so that one which waits for the cluster does not hold up the others."""


class Ticker:
    """Runs each of `ticks` every so many `seconds`, and never twice at a time."""

    def __init__(self, ticks: Mapping[str, Callable[[], object]], seconds: Mapping[str, float]) -> None:
        self._ticks = ticks
        self._seconds = seconds
        self._next = dict.fromkeys(ticks, 0.0)
        self._running: set[str] = set()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="tick")
        self._stopped = threading.Event()

    def run(self) -> None:
        """Run ticks until `stop` is called, and wait for those under way."""
        pause = 0.0
        while not self._stopped.wait(pause):
            pause = self._start_due(time.monotonic())
        self._pool.shutdown()

    def stop(self) -> None:
        """Start no more ticks."""
        self._stopped.set()

    def _start_due(self, moment: float) -> float:
        """Start the ticks that are due. Returns the seconds until the next one is."""
        for name, due_at in self._next.items():
            if due_at <= moment:
                self._next[name] = moment + self._seconds[name]
                if name not in self._running:
                    self._running.add(name)
                    self._pool.submit(self._tick, name)
        return min(self._next.values()) - moment

    def _tick(self, name: str) -> None:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(tick=name)
        try:
            self._ticks[name]()
        except Exception:
            # The next time may be better, as with a message.
            log.exception("tick failed with an unexpected error")
        finally:
            self._running.discard(name)
