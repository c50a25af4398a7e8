"""What was answered under an `Idempotency-Key`, so that the same question gets the same answer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Memory(Generic[Value]):
    """The newest answers, by key: at most `entries` of them, with at most `size` bytes. May be used by several threads.

    A process that ends forgets them: what must not be done twice is kept by the plugin itself, in its own store.
    """

    def __init__(self, entries: int = 10_000, size: int = 64 * 1024 * 1024) -> None:
        self._entries = entries
        self._size = size
        self._held = 0
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._running: dict[str, Future[Value | None]] = {}

    def claim(self, key: str) -> Value | Future[Value | None] | None:
        """The answer that is known; a Future if another call is making it; None if this call is to make it, and then has to
        call `keep` or `release`."""
        with self._lock:
            known = self._answers.get(key)
            if known is not None:
                self._answers.move_to_end(key)
                return known[0]
            running = self._running.get(key)
            if running is None:
                self._running[key] = Future()
            return running

    def keep(self, key: str, value: Value, size: int) -> None:
        """Remember the answer to a claimed key; `size` in bytes counts against the memory's."""
        with self._lock:
            if size <= self._size:
                self._answers[key] = (value, size)
                self._held += size
            while len(self._answers) > self._entries or self._held > self._size:
                _, (_, freed) = self._answers.popitem(last=False)
                self._held -= freed
            running = self._running.pop(key)
        running.set_result(value)

    def release(self, key: str) -> None:
        """Remember nothing of a claimed key: whoever waits for its answer makes one of its own."""
        with self._lock:
            running = self._running.pop(key)
        running.set_result(None)
