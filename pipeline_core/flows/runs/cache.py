"""What a process remembers of a few runs, so as not to read it again and again."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

KEPT = 64
"""Runs that are remembered."""

KEPT_TASKS = 10_000
"""Tasks of all these together: runs of large flows take up megabytes each."""

Value = TypeVar("Value")


class RunCache(Generic[Value]):
    """Values by the ID of a run; the one that came first is forgotten first. Threads may share it."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._tasks: dict[str, int] = {}
        self._lock = threading.Lock()

    def get(self, run_id: str) -> Value | None:
        with self._lock:
            return self._values.get(run_id)

    def keep(self, run_id: str, value: Value, tasks: int) -> None:
        """Remember the value of a run with so many tasks, and of others what there is room for beside it."""
        with self._lock:
            self._forget(run_id)
            self._values[run_id], self._tasks[run_id] = value, tasks
            while len(self._values) > KEPT or (len(self._values) > 1 and sum(self._tasks.values()) > KEPT_TASKS):
                self._forget(next(iter(self._values)))

    def _forget(self, run_id: str) -> None:
        self._values.pop(run_id, None)
        self._tasks.pop(run_id, None)
