"""Launch many jobs together: those that wait for their launch beside the one that a message names.

Each is launched by a call of its own, one after the other, and what comes of all is written in one transaction. As many are taken
as are launched in a moment, so that no job waits in one worker while another is idle: where a launch takes long, it is none.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack

import structlog

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.errors import Unavailable
from pipeline_core.jobs import claims, cursor
from pipeline_core.jobs.cursor import Finished
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.runtime import part
from pipeline_core.stages import launch
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, Fail, Launched
from pipeline_core.stages.shares import keys_of, shares
from workers import stage_run
from workers.lease_renewal import lease_renewal

log = structlog.get_logger(__name__)

MOST = 32
"""So many jobs are launched together at most."""
PAUSE_SECONDS = 0.1
"""How long a process does not look for jobs that wait for their launch after it has found none."""
Message = tuple[str, int]
"""What a message of a launch names: the job and the epoch."""
REMEMBERED = 10_000
"""Of so many launched jobs a process remembers that their messages have nothing to do."""


class Launches:
    """Which thread of this process launches jobs together, and what it knows of their messages. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leads = False
        self._look_again_at = 0.0
        self._left: dict[Message, None] = {}
        self._without_message: dict[Message, None] = {}

    def admits(self, message: Message) -> bool:
        """Whether this message, which has come, has to be handled by its own thread. Not if its job has been launched already;
        and while a thread launches jobs together, it is left to that."""
        with self._lock:
            if self._without_message.pop(message, self) is None:
                return False
            if self._leads:
                self._left[message] = None
            return not self._leads

    def lead(self) -> bool:
        """Begin to launch jobs together; False while another thread does, and shortly after none has waited."""
        with self._lock:
            if self._leads or time.monotonic() < self._look_again_at:
                return False
            self._leads = True
            return True

    def done(self, step: ClaimedStep) -> None:
        """A job was launched, or has failed, beside others: its message has nothing to do."""
        message = (step.job_id, step.epoch)
        with self._lock:
            if self._left.pop(message, self) is None:
                return
            self._without_message[message] = None
            if len(self._without_message) > REMEMBERED:
                del self._without_message[next(iter(self._without_message))]

    def end(self) -> list[Message]:
        """No longer launch jobs together. Returns the messages that were left to this thread and whose jobs were not launched."""
        with self._lock:
            left, self._left = list(self._left), {}
            self._look_again_at = time.monotonic() + PAUSE_SECONDS
            self._leads = False
            return left


@part
def launches() -> Launches:
    """Those of this process."""
    return Launches()


def launch_waiting(worker: str) -> list[Message]:
    """Launch jobs that wait for it, together, until there are none or the process is being stopped; nothing while another thread
    does. Returns the messages of jobs that have come meanwhile and were not among them."""
    if most() < 2 or not launches().lead():
        return []
    try:
        while not stage_run.stopping() and most() > 1 and _launch_some(most(), f"{worker}/{uuid.uuid4().hex}"):
            pass
    except Unavailable as error:
        # The steps stay due: their leases expire, and a tick publishes them again.
        log.warning("launches postponed: the database is unavailable", error=error.message)
    finally:
        left = launches().end()
    return left


def most() -> int:
    """How many jobs are launched together now at most. Fewer than two are not worth it."""
    return min(MOST, launch.pace().launches_within(launch.TOGETHER_SECONDS))


def _launch_some(number: int, owner: str) -> bool:
    """Launch at most so many. Returns whether any waited for it, and there was a place to launch them."""
    if not shares().enter(owner, keys_of("", (), cluster=True)):
        return False
    try:
        steps = claims.claim_waiting(Stage.LAUNCH, number, owner)
        if steps:
            _launch(steps)
        return bool(steps)
    finally:
        shares().leave(owner)


def _launch(steps: Sequence[ClaimedStep]) -> None:
    started = time.monotonic()
    with ExitStack() as held:
        for step in steps:
            held.enter_context(lease_renewal().holding(step))
        finished = [_outcome(step) for step in steps]
    for each, progress in zip(finished, _finish(finished), strict=True):
        with structlog.contextvars.bound_contextvars(**cursor.log_context(each.step)):
            if progress is None:
                _finish_alone(each)
            failpoints.reach(Point.STAGE_FINISHED, each.step.stage, each.step.name)
        stage_run.publish_shadows(each.step, each.outcome)
        if isinstance(each.outcome, Launched | Fail):
            launches().done(each.step)
        labels = (each.step.stage, type(each.outcome).__name__.lower())
        totals().observe(Metric.STAGE_SECONDS, labels, time.monotonic() - started)


def _outcome(step: ClaimedStep) -> Finished:
    with structlog.contextvars.bound_contextvars(**cursor.log_context(step)):
        try:
            failpoints.reach(Point.STAGE_CLAIMED, step.stage, step.name)
            return Finished(step, stage_run.outcome(step, launch.run))
        except Exception as error:  # noqa: BLE001 - `crashed` logs it
            return Finished(step, stage_run.crashed(step, error))


def _finish(finished: Sequence[Finished]) -> Sequence[cursor.Progress | None]:
    """Finish the steps together; None for each that has to be finished by itself."""
    try:
        return cursor.finish_together(finished)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - each is finished by itself, which logs its own
        log.warning("outcomes not written together", steps=len(finished), error=type(error).__name__)
        return [None] * len(finished)


def _finish_alone(finished: Finished) -> None:
    try:
        stage_run.finish_launch(finished.step, finished.outcome)
    except ClusterUnavailable as error:
        log.warning("a late launch is left to the tick that cleans up", error=error.message)
