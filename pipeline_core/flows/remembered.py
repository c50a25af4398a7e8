"""What a process remembers of a few runs, so as not to read it again and again."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

KEPT = 64
"""Runs that are remembered."""

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """Values by the ID of a run; the one that came first is forgotten first. Threads may share it."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._values: dict[str, Value] = {}
        self._lock = threading.Lock()

    def get(self, run_id: str) -> Value | None:
        with self._lock:
            return self._values.get(run_id)

    def keep(self, run_id: str, value: Value) -> None:
        with self._lock:
            self._values.pop(run_id, None)
            self._values[run_id] = value
            while len(self._values) > self._kept:
                del self._values[next(iter(self._values))]
