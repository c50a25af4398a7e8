"""Wake-up calls: what ought to be looked at soon, now that a transaction has committed.

They are hints. The database says what is owed, and a sweep finds whatever a lost call would have told. This module
knows what is to be told but not how: `workers` registers the publisher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point


@dataclass(frozen=True, slots=True)
class StepOwed:
    """A job owes this stage. After a resume, `parked_epoch` is the epoch under which the rest of its chain was parked."""

    job_id: str
    epoch: int
    stage: str
    parked_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class DeliveryOwed:
    """A subscriber is to be told."""

    delivery_id: str


@dataclass(frozen=True, slots=True)
class CleanupOwed:
    """A job has ended while something of it may be left in the cluster or parked."""

    job_id: str


@dataclass(frozen=True, slots=True)
class RunOwed:
    """A run of a flow has something to take in, or to have done."""

    run_id: str


@dataclass(frozen=True, slots=True)
class FlowOwed:
    """Other runs of a flow may start now."""

    flow_id: str


@dataclass(frozen=True, slots=True)
class SchedulesOwed:
    """More runs of schedules are due than one makes in good time: another may begin at the other end."""


Wakeup = StepOwed | DeliveryOwed | CleanupOwed | RunOwed | FlowOwed | SchedulesOwed
Publisher = Callable[[Sequence[Wakeup]], None]

_NOTED = "wakeups"
_publisher: list[Publisher] = []


def publish_with(publisher: Publisher) -> None:
    """Announce wake-ups by this from now on, in this process. It must not raise when its broker is away."""
    _publisher[:] = [publisher]


def after_commit(session: Session, wakeup: Wakeup) -> None:
    """Note a wake-up that is announced, once, if and when the session's transaction commits."""
    session.info.setdefault(_NOTED, {})[wakeup] = None


def announce(session: Session) -> None:
    """Hand what was noted to the publisher."""
    noted: list[Wakeup] = list(session.info.pop(_NOTED, ()))
    if noted and _publisher:
        failpoints.reach(Point.WAKEUPS_NOTED, *map(_label, noted))
        _publisher[0](noted)


def _label(wakeup: Wakeup) -> str:
    return wakeup.stage if isinstance(wakeup, StepOwed) else type(wakeup).__name__
