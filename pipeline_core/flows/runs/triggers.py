"""How a run comes about."""

from __future__ import annotations

from enum import StrEnum


class Trigger(StrEnum):
    """How a run came about. `task` and `debug` runs are of a single task."""

    MANUAL = "manual"
    SCHEDULE = "schedule"
    BACKFILL = "backfill"
    TASK = "task"
    DEBUG = "debug"

    @property
    def by_hand(self) -> bool:
        """Whether a person wanted this run, and not one for a point of the schedule."""
        return self in BY_HAND


BY_HAND = (Trigger.MANUAL, Trigger.TASK, Trigger.DEBUG)
