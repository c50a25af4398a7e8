"""Renew the lease of a claimed step in a background thread. So leases can be short, and the step of a worker that died can soon
be claimed by another one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from pipeline_core.errors import Unavailable
from pipeline_core.jobs import cursor
from pipeline_core.jobs.cursor import LeaseLost
from pipeline_core.settings import settings
from pipeline_core.stages.outcomes import ClaimedStep

log = structlog.get_logger(__name__)


@contextmanager
def renewing(step: ClaimedStep) -> Iterator[None]:
    """Renew the step's lease until the block ends. If the lease is lost nevertheless, `cursor.finish` raises LeaseLost.

    Does not limit the time of the block: Celery's time limits do.
    """
    done = threading.Event()

    def renew() -> None:
        while not done.wait(settings().lease_seconds / 3):
            try:
                cursor.renew(step)
            except LeaseLost:
                return
            except Unavailable as error:
                log.warning("lease not renewed", job_id=step.job_id, error=error.message)

    thread = threading.Thread(target=renew, name="lease-renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
