"""The thread that sends a process's wake-ups, so that nobody waits for Redis.

It gathers what comes while it sends, and sends that in one round trip. What it has gathered is lost when the process is killed:
it is due in the database, where a tick finds it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

import structlog

from pipeline_core.database.wakeups import Wakeup

log = structlog.get_logger(__name__)

MOST_TOGETHER = 500
"""How many notes of transactions are sent in one round trip at most."""
MOST_GATHERED = 10_000
"""How many notes may wait to be sent; more are dropped."""
CLOSE_SECONDS = 5.0
"""How long the end of a process waits until all is sent."""


class Publisher:
    """Passes wake-ups to `send` in a thread of its own, several at a time, each once. `send` must not raise because of Redis."""

    def __init__(self, send: Callable[[Sequence[Wakeup]], None]) -> None:
        self._send = send
        self._gathered: SimpleQueue[Sequence[Wakeup] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def put(self, noted: Sequence[Wakeup]) -> None:
        """Have these wake-ups sent soon. Never waits."""
        if self._gathered.qsize() >= MOST_GATHERED:
            log.warning(f"{len(noted)} wake-ups are not sent: too many wait")
        else:
            self._gathered.put(noted)

    def close(self) -> None:
        """Send what has come so far, and end the thread. Waits for CLOSE_SECONDS at most."""
        atexit.unregister(self.close)
        self._gathered.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        is_open = True
        while is_open:
            gathered = self._gather()
            is_open = None not in gathered
            wakeups = dict.fromkeys(wakeup for noted in gathered for wakeup in noted or ())
            if wakeups:
                self._send_all(tuple(wakeups))

    def _gather(self) -> list[Sequence[Wakeup] | None]:
        gathered = [self._gathered.get()]
        try:
            while len(gathered) < MOST_TOGETHER:
                gathered.append(self._gathered.get_nowait())
        except Empty:
            pass
        return gathered

    def _send_all(self, wakeups: Sequence[Wakeup]) -> None:
        try:
            self._send(wakeups)
        except Exception:
            log.exception(f"{len(wakeups)} wake-ups are not sent")
