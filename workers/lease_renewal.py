"""Renew the leases of the steps that this process holds, in a background thread. So leases can be short, and the step of a worker
that died can soon be claimed by another one.

The thread also keeps ticks from publishing the steps that wait for a place here, and publishes some of them itself, so that no
process is idle while many steps wait in another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from pipeline_core.database.wakeups import StepDue
from pipeline_core.errors import Unavailable
from pipeline_core.jobs import leases
from pipeline_core.runtime import part
from pipeline_core.settings import settings
from pipeline_core.stages.outcomes import ClaimedStep
from pipeline_core.stages.shares import shares
from workers.publish import publish

log = structlog.get_logger(__name__)

HANDED_OVER_PART = 4
"""Each time as many waiting steps are published again as one of so many places: enough to fill another process in a few rounds,
and few enough to cost little when this one takes them back."""


class LeaseRenewal:
    """Calls `renew` every `seconds` with the steps that are held at the time. Its thread starts with the first of them.

    A lease that is lost nevertheless is noticed by `cursor.finish`, which raises LeaseLost.
    """

    def __init__(self, renew: Callable[[Sequence[ClaimedStep]], object], seconds: float) -> None:
        self._renew = renew
        self._seconds = seconds
        self._held: dict[str, ClaimedStep] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @contextmanager
    def holding(self, step: ClaimedStep) -> Iterator[None]:
        """Renew the step's lease until the block ends. Does not limit the time of the block: each call has its own deadline."""
        with self._lock:
            self._held[step.owner] = step
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lease-renewal", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._held[step.owner]

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            with self._lock:
                held = list(self._held.values())
            try:
                self._renew(held)
            except Unavailable as error:
                log.warning("leases not renewed", steps=len(held), error=error.message)


@part(close=LeaseRenewal.stop)
def lease_renewal() -> LeaseRenewal:
    """This process's renewal: three times in the time of a lease."""
    return LeaseRenewal(_renew, settings().lease_seconds / 3)


def _renew(held: Sequence[ClaimedStep]) -> None:
    if held:
        leases.renew_all(held)
    places = shares()
    if waiting := places.waiting():
        places.drop(set(waiting) - set(leases.keep_waiting(waiting)))
    # Who leaves a place takes the next step that waits. This is for what a thread that failed left undone: whoever gets that step
    # goes on with the others. All that would get the one place that is free for a moment would be claimed in vain.
    if step := places.next():
        publish([StepDue(step.job_id, step.epoch, step.stage)])
    if steps := places.hand_over(places.places // HANDED_OVER_PART):
        publish([StepDue(step.job_id, step.epoch, step.stage) for step in steps])
