"""The thread that sends a process's notes to Redis, such as its wake-ups, so that nobody waits for it.

It gathers what comes while it sends, and sends that in one round trip. What it has gathered is lost when the process is killed:
what a wake-up is about is due in the database, where a tick finds it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Hashable, Sequence
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)

Note = TypeVar("Note", bound=Hashable)

MOST_TOGETHER = 500
"""How many notes of transactions are sent in one round trip at most."""
MOST_GATHERED = 10_000
"""How many notes may wait to be sent; more are dropped."""
CLOSE_SECONDS = 5.0
"""How long the end of a process waits until all is sent."""


class Publisher(Generic[Note]):
    """Passes notes to `send` in a thread of its own, several at a time, each once: those that come within `gather_seconds`, and
    while it sends. `send` must not raise because of Redis."""

    def __init__(self, send: Callable[[Sequence[Note]], None], gather_seconds: float = 0.0) -> None:
        self._send = send
        self._gather_seconds = gather_seconds
        self._gathered: SimpleQueue[Sequence[Note] | None] = SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def put(self, noted: Sequence[Note]) -> None:
        """Have these notes sent soon. Never waits."""
        if self._gathered.qsize() >= MOST_GATHERED:
            log.warning(f"{len(noted)} notes are not sent: too many wait")
        else:
            self._gathered.put(noted)

    def close(self) -> None:
        """Send what has come so far, and end the thread. Waits for CLOSE_SECONDS at most."""
        atexit.unregister(self.close)
        self._gathered.put(None)
        self._closed.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        is_open = True
        while is_open:
            gathered = self._gather()
            is_open = None not in gathered
            notes = dict.fromkeys(note for noted in gathered for note in noted or ())
            if notes:
                self._send_all(tuple(notes))

    def _gather(self) -> list[Sequence[Note] | None]:
        gathered = [self._gathered.get()]
        if self._gather_seconds:
            self._closed.wait(self._gather_seconds)
        try:
            while len(gathered) < MOST_TOGETHER:
                gathered.append(self._gathered.get_nowait())
        except Empty:
            pass
        return gathered

    def _send_all(self, notes: Sequence[Note]) -> None:
        try:
            self._send(notes)
        except Exception:
            log.exception(f"{len(notes)} notes are not sent")
