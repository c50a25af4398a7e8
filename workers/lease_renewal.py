"""Signs of life: the lease of a claimed step is renewed while its worker lives, so that it may be short, and a worker that
died is found out soon."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from pipeline_core.errors import Unavailable
from pipeline_core.jobs import cursor
from pipeline_core.jobs.cursor import LeaseLost
from pipeline_core.settings import settings
from pipeline_core.stages.outcomes import Claim

log = structlog.get_logger(__name__)


@contextmanager
def beating(claim: Claim) -> Iterator[None]:
    """Renew the claim's lease until the block ends. A lease that is lost all the same shows when the stage is finished.

    How long the block may take is not decided here: Celery's time limits end a worker that hangs, and its signs of life.
    """
    over = threading.Event()

    def beat() -> None:
        while not over.wait(settings().lease_seconds / 3):
            try:
                cursor.renew(claim)
            except LeaseLost:
                return
            except Unavailable as error:
                log.warning("lease not renewed", job_id=claim.job_id, error=error.message)

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
