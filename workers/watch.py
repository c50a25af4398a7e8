"""The watcher: follows the cluster and observes the jobs that changed there. `python -m workers APP watch`.

Several can run; the process that holds the lease `watcher` is active, the others stand by. The reconcile tick observes what a
watch misses. The active one reports every few seconds whether the cluster can be used, and how far it is behind.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import structlog

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.factory import cluster
from pipeline_core.common import log as logs
from pipeline_core.database.locks import hold, release
from pipeline_core.errors import ConfigurationError, Unavailable
from pipeline_core.jobs import rollup
from pipeline_core.operations import cluster_health
from pipeline_core.settings import settings
from workers import liveness, publish
from workers.each_job import for_each_job

log = structlog.get_logger(__name__)

LEASE = "watcher"
LEASE_SECONDS = 15.0
PAUSE_SECONDS = 1.0
CHECK_SECONDS = 60.0
"""How often the credentials and rights are checked while the watch is undisturbed."""
UNEXPECTED_PAUSE_SECONDS = 5.0


def main() -> int:
    """Watch until SIGTERM or SIGINT. Returns the exit code: 2 when the settings are wrong."""
    try:
        logs.configure(settings())
    except ConfigurationError as error:
        sys.stderr.write(f"{error.message}\n")
        return 2
    publish.install()
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    watch(stop, lease_owner())
    return 0


def lease_owner() -> str:
    """A name for this process's hold of the lease."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def watch(stop: threading.Event, owner: str) -> None:
    """Follow the cluster whenever this process can get the lease, until `stop` is set. No error ends it."""
    while not stop.is_set():
        liveness.touch()
        pause = PAUSE_SECONDS
        try:
            if hold(LEASE, owner, LEASE_SECONDS):
                log.info("watching", owner=owner)
                follow(stop, owner)
        except Unavailable as error:
            log.warning("watch interrupted", error=error.message)
        except ClusterUnavailable as error:
            log.warning("watch interrupted", error=error.message)
            _report(error.message)
        except Exception as error:
            log.exception("watch interrupted by an unexpected error")
            _report(f"the watcher failed with an unexpected error, {type(error).__name__}; its log has it")
            pause = UNEXPECTED_PAUSE_SECONDS
        stop.wait(pause)
    try:
        release(LEASE, owner)
    except Unavailable as error:
        log.warning("lease not released", error=error.message)


def follow(stop: threading.Event, owner: str) -> None:
    """Observe jobs that change, for as long as the lease is held."""
    lost = threading.Event()
    state = WatchState()

    def renew() -> None:
        while not stop.is_set() and not lost.wait(LEASE_SECONDS / 3):
            try:
                if not hold(LEASE, owner, LEASE_SECONDS):
                    lost.set()
            except Unavailable as error:
                log.warning("lease not renewed", error=error.message)
                lost.set()
            else:
                state.report()

    def observe(job_id: str) -> None:
        liveness.touch()
        rollup.observe(job_id)

    cluster().check()
    renewal = threading.Thread(target=renew, daemon=True, name="lease")
    renewal.start()
    try:
        for job_ids in cluster().watch(stop):
            liveness.touch()
            if lost.is_set():
                return
            with state.applying():
                for_each_job(rollup.apply_cached_observations(job_ids), observe)
            state.check()
    finally:
        lost.set()


class WatchState:
    """What the active watcher reports: whether the cluster can be used, and how far the watcher is behind.

    Written by the thread that watches, read by the one that reports, which goes on when the first one waits.
    """

    def __init__(self) -> None:
        self._watching = False
        self._problem = ""
        self._checked_at = time.monotonic()
        self._applying_since: float | None = None

    @contextmanager
    def applying(self) -> Iterator[None]:
        """Changes are being applied. The first ones are a list of all jobs: then the cluster has answered."""
        self._applying_since = time.monotonic()
        try:
            yield
        finally:
            self._applying_since = None
        self._watching = True

    def check(self) -> None:
        """Check rights and credentials again, if that is due. A problem does not end the watch, which may go on without."""
        if time.monotonic() - self._checked_at < CHECK_SECONDS:
            return
        try:
            cluster().check()
            self._problem = ""
        except ClusterUnavailable as error:
            log.warning("the cluster cannot be used as it should be", error=error.message)
            self._problem = error.message
        self._checked_at = time.monotonic()

    def report(self) -> None:
        """Report, unless the cluster has not answered yet."""
        since = self._applying_since
        applying = 0.0 if since is None else time.monotonic() - since
        if self._watching:
            _report(self._problem, lag_seconds=max(applying, cluster().watch_lag()))


def _report(problem: str, *, lag_seconds: float = 0.0) -> None:
    try:
        cluster_health.report(settings().cluster_name, problem=problem, lag_seconds=lag_seconds)
    except Unavailable as error:
        log.warning("cluster health not reported", error=error.message)
