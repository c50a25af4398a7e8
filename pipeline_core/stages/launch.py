"""Launch: start the TaskSet in the cluster. The step was claimed and committed before the cluster is called, and names derive
from the job, so that a repeated launch finds what an earlier one started."""

from __future__ import annotations

import threading
import time

from pipeline_core.clusters.base import ClusterError, ClusterUnavailable, LaunchRequest, StillEnding
from pipeline_core.clusters.factory import cluster
from pipeline_core.common import tracing
from pipeline_core.runtime import part
from pipeline_core.settings import settings
from pipeline_core.stages.outcomes import ClaimedStep, Ending, Fail, Launched, Postpone

ENDING_PAUSE = 1.0
"""Seconds until the next launch of a job whose earlier attempt has not ended yet."""
UNAVAILABLE_PAUSE = 10.0
"""Seconds until the next launch after the cluster was unavailable."""

TOGETHER_SECONDS = 0.05
"""How long launches that one thread makes one after the other may take, so that no job waits while another thread is idle."""


class Pace:
    """How long launches take in this process, on average over the last ones. Thread-safe."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._lock = threading.Lock()

    def took(self, seconds: float) -> None:
        """A launch took so many seconds."""
        with self._lock:
            self._seconds = seconds if self._seconds is None else self._seconds + (seconds - self._seconds) / 8

    def launches_within(self, seconds: float) -> int:
        """How many launches are made within so many seconds, one after the other; none while nothing is known."""
        return 0 if self._seconds is None else int(seconds / max(self._seconds, 1e-6))


@part
def pace() -> Pace:
    """The pace of this process."""
    return Pace()


def run(step: ClaimedStep) -> Ending:
    """Start the job in the cluster, unless it is there already."""
    name = settings().cluster_name
    request = LaunchRequest(step.job_id, step.namespace, step.user_id, step.taskset or {}, step.attempt)
    started = time.monotonic()
    try:
        with tracing.span("cluster launch", step.traceparent, tracing.Kind.CLIENT, cluster=name, attempt=step.attempt):
            observation = cluster().launch(request)
        pace().took(time.monotonic() - started)
        return Launched(observation=observation)
    except StillEnding as error:
        return Postpone(reason=error.message, seconds=ENDING_PAUSE)
    except ClusterUnavailable as error:
        return Postpone(reason=f"The cluster {name} cannot be used: {error.message}", seconds=UNAVAILABLE_PAUSE)
    except ClusterError as error:
        return Fail(trail=(), reason=f"The cluster {name} refused the TaskSet: {error.message}")
