"""`Heartbeats`: which processes have written a heartbeat since they were started."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pipeline_core.database import transaction
from pipeline_core.errors import Unavailable
from pipeline_core.operations import heartbeats

READ_AGAIN_SECONDS = 0.25


class Heartbeats:
    """The heartbeats in the database, read at most every READ_AGAIN_SECONDS."""

    def __init__(self) -> None:
        self._ages: Mapping[str, float] = {}
        self._read_at = float("-inf")

    def written(self, name: str, seconds: float) -> bool:
        """Whether the heartbeat `name` was written in the last `seconds`; False while the database is unavailable."""
        if time.monotonic() - self._read_at > READ_AGAIN_SECONDS:
            self._ages = self._read()
            self._read_at = time.monotonic()
        age = self._ages.get(name)
        return age is not None and age + (time.monotonic() - self._read_at) < seconds

    @staticmethod
    def _read() -> Mapping[str, float]:
        try:
            with transaction() as session:
                return heartbeats.ages(session)
        except Unavailable:
            return {}
