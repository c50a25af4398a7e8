"""Runs the ticks in the process that it is in: what beat and a housekeeping worker do, without messages.

Most of the time there is nothing to do. So before the ticks that are due at a moment, it asks once which of them would find
anything, and leaves out the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

import structlog

from pipeline_core.errors import Unavailable

log = structlog.get_logger(__name__)

THREADS = 4
"""How many ticks run at a time, so that one which waits for the cluster does not hold up the others."""


class Ticker:
    """Runs each of `ticks` every so many `seconds`, and never twice at a time; of those in `asked`, which `with_work` returns."""

    def __init__(
        self,
        ticks: Mapping[str, Callable[[], object]],
        seconds: Mapping[str, float],
        asked: Collection[str] = (),
        with_work: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._ticks = ticks
        self._seconds = seconds
        self._asked = frozenset(asked)
        self._with_work = with_work
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
        due = {name for name, due_at in self._next.items() if due_at <= moment}
        for name in due:
            self._next[name] = moment + self._seconds[name]
        for name in self._useful(due - self._running):
            self._running.add(name)
            self._pool.submit(self._tick, name)
        return min(self._next.values()) - moment

    def _useful(self, due: Collection[str]) -> Collection[str]:
        """Those of the ticks that are due which would find anything, as far as that is known."""
        if self._asked.isdisjoint(due):
            return due
        try:
            with_work = frozenset(self._with_work())
        except Unavailable as error:
            log.warning("ticks left out: the database is unavailable", error=error.message)
            with_work = frozenset()
        return [name for name in due if name not in self._asked or name in with_work]

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
