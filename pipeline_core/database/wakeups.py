"""Wake-ups: notes to publish a message once a transaction has committed.

They are hints: the database says what is due, and a tick finds due work whose message was lost. This module knows what to
publish but not how: `workers` registers the publisher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.runtime import give, part


@dataclass(frozen=True, slots=True)
class StepDue:
    """A job's step is due. After a resume, `parked_epoch` is the epoch under which the rest of its chain was parked."""

    job_id: str
    epoch: int
    stage: str
    parked_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class DeliveriesDue:
    """Deliveries to a subscriber are due. `subscriber` is its plugin's key."""

    subscriber: str


@dataclass(frozen=True, slots=True)
class CleanupDue:
    """A job has ended, and something of it may be left in the cluster or parked in Redis."""

    job_id: str


@dataclass(frozen=True, slots=True)
class RunDue:
    """A run of a flow can advance, or has attempts to start or stop."""

    run_id: str


@dataclass(frozen=True, slots=True)
class FlowDue:
    """Waiting runs of a flow may start now."""

    flow_id: str


@dataclass(frozen=True, slots=True)
class SchedulesDue:
    """More runs of schedules are due than one worker can create in time: another worker should help."""


Wakeup = StepDue | DeliveriesDue | CleanupDue | RunDue | FlowDue | SchedulesDue
Publisher = Callable[[Sequence[Wakeup]], None]

_NOTED = "wakeups"


@part
def _publisher() -> Publisher | None:
    return None


def publish_with(publisher: Publisher | None) -> None:
    """Publish this process's wake-ups with `publisher` from now on; None discards them. It must not raise when its broker is
    unavailable."""
    give(_publisher, publisher)


def after_commit(session: Session, wakeup: Wakeup) -> None:
    """Publish a wake-up, once, when the session's transaction commits."""
    session.info.setdefault(_NOTED, {})[wakeup] = None


def publish_noted(session: Session) -> None:
    """Pass the noted wake-ups to the publisher."""
    if noted := session.info.pop(_NOTED, ()):
        publish(list(noted))


def publish(committed: Sequence[Wakeup]) -> None:
    """Pass wake-ups to the publisher whose transaction has been committed already."""
    if publisher := _publisher():
        failpoints.reach(Point.WAKEUPS_NOTED, *map(label, committed))
        publisher(committed)


def label(wakeup: Wakeup) -> str:
    """What the points of a failure in the tests name the wake-up by: the stage of a step, the class of another."""
    return wakeup.stage if isinstance(wakeup, StepDue) else type(wakeup).__name__
