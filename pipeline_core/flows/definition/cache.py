"""`FlowCache`: keeps flows and their runs in a process, as many as their tasks allow."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

MAX_CACHED = 64
"""Values that a cache holds."""

MAX_CACHED_TASKS = 10_000
"""Tasks of all of them together: large flows and their runs take up megabytes each."""

Value = TypeVar("Value")


class FlowCache(Generic[Value]):
    """A bounded cache of values that are as large as a flow; the oldest is dropped first. Threads may share it."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._tasks: dict[str, int] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> Value | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: str, value: Value, tasks: int) -> None:
        """Cache a value of so many tasks; others are dropped as far as the limits ask for it."""
        with self._lock:
            self._drop(key)
            self._values[key], self._tasks[key] = value, tasks
            while len(self._values) > MAX_CACHED or (
                len(self._values) > 1 and sum(self._tasks.values()) > MAX_CACHED_TASKS
            ):
                self._drop(next(iter(self._values)))

    def _drop(self, key: str) -> None:
        self._values.pop(key, None)
        self._tasks.pop(key, None)
