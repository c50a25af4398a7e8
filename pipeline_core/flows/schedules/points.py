"""Which points of a schedule are owed a run: those that are due, and those of the past that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline_core.flows.notation.schedule import Schedule

LATE = timedelta(minutes=1)
"""A point that has no run so long after its time was missed: without catch-up it gets none."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleCursor:
    """How far a schedule has come. All instants are aware.

    `next_at` is the earliest point that may lack a run, `since` when the schedule was set. Points up to `replay_until` are
    made up whatever `catchup` says.
    """

    schedule: Schedule
    next_at: datetime
    since: datetime
    catchup: bool = True
    replay_until: datetime | None = None

    def owed(self, moment: datetime) -> Iterator[datetime]:
        """The points that are to have a run at this moment, oldest first."""
        for start, end in self._spans(moment):
            yield from self.schedule.between(start, end)

    def owes(self, point: datetime, moment: datetime) -> bool:
        """Whether this point of the schedule is one of those."""
        return any(start <= point <= end for start, end in self._spans(moment))

    def passed(self, moment: datetime) -> Iterator[datetime]:
        """All points until this moment, whether they are made up or not, oldest first."""
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
