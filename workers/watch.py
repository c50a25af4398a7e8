"""The watcher: follows the cluster and observes the jobs that changed there. `python -m workers.watch`.

Several can run; the process that holds the lease `watcher` is active, the others stand by. The reconcile tick observes what a
watch misses.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import uuid
from types import FrameType

import structlog

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.factory import cluster
from pipeline_core.common import log as logs
from pipeline_core.database.locks import hold, release
from pipeline_core.errors import Unavailable
from pipeline_core.jobs import rollup
from pipeline_core.settings import settings
from workers import liveness, publish
from workers.each_job import for_each_job

log = structlog.get_logger(__name__)

LEASE = "watcher"
LEASE_SECONDS = 15.0
PAUSE_SECONDS = 1.0


def main() -> None:
    """Watch until SIGTERM or SIGINT."""
    logs.configure(settings())
    publish.install()
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    watch(stop, owner=f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}")


def watch(stop: threading.Event, owner: str) -> None:
    """Follow the cluster whenever this process can get the lease, until `stop` is set."""
    while not stop.is_set():
        liveness.touch()
        try:
            if hold(LEASE, owner, LEASE_SECONDS):
                log.info("watching", owner=owner)
                follow(stop, owner)
        except (Unavailable, ClusterUnavailable) as error:
            log.warning("watch interrupted", error=error.message)
        stop.wait(PAUSE_SECONDS)
    try:
        release(LEASE, owner)
    except Unavailable as error:
        log.warning("lease not released", error=error.message)


def follow(stop: threading.Event, owner: str) -> None:
    """Observe jobs that change, for as long as the lease is held."""
    lost = threading.Event()

    def renew() -> None:
        while not stop.is_set() and not lost.wait(LEASE_SECONDS / 3):
            try:
                if not hold(LEASE, owner, LEASE_SECONDS):
                    lost.set()
            except Unavailable as error:
                log.warning("lease not renewed", error=error.message)
                lost.set()

    def observe(job_id: str) -> None:
        liveness.touch()
        rollup.observe(job_id)

    renewal = threading.Thread(target=renew, daemon=True, name="lease")
    renewal.start()
    try:
        for job_ids in cluster().watch(stop):
            liveness.touch()
            if lost.is_set():
                return
            for_each_job(rollup.apply_cached_observations(job_ids), observe)
    finally:
        lost.set()


if __name__ == "__main__":
    main()
