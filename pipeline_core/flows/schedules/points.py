"""The points of a schedule that are due, including missed ones with catch-up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline_core.flows.notation.cron import Schedule

LATE = timedelta(minutes=1)
"""A point that has no run this long after its time is missed: without catch-up it gets none."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleCursor:
    """The position of a flow in its schedule. All instants are aware.

    `next_at` is the earliest point that may have no run yet, `since` when the schedule was set. Points up to `replay_until`
    are due even without `catchup`.
    """

    schedule: Schedule
    next_at: datetime
    since: datetime
    catchup: bool = True
    replay_until: datetime | None = None

    def due(self, moment: datetime) -> Iterator[datetime]:
        """The points that have to have a run at this moment, oldest first."""
        for start, end in self._spans(moment):
            yield from self.schedule.between(start, end)

    def is_due(self, point: datetime, moment: datetime) -> bool:
        """Whether this point of the schedule is due."""
        return any(start <= point <= end for start, end in self._spans(moment))

    def passed(self, moment: datetime) -> Iterator[datetime]:
        """All points until this moment, due or not, oldest first."""
        return self.schedule.between(self.next_at, moment)

    def upcoming(self, moment: datetime) -> Iterator[datetime]:
        """The points after this moment."""
        return self.schedule.after(max(moment, self.next_at - _INSTANT))

    def _spans(self, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        start = self.next_at
        if not self.catchup:
            if self.replay_until:
                yield start, min(self.replay_until, moment)
                start = max(start, self.replay_until + _INSTANT)
            start = max(start, self.since, moment - LATE)
        yield start, moment


def first_from(schedule: Schedule, start: datetime) -> datetime | None:
    """The first point at `start` or after it; None when there is none any more."""
    return next(schedule.after(start - _INSTANT), None)
