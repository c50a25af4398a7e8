"""Launch: start the TaskSet in the cluster. The step was claimed and committed before the cluster is called, and names derive
from the job, so that a repeated launch finds what an earlier one started."""

from __future__ import annotations

from pipeline_core.clusters.base import ClusterError, ClusterUnavailable, LaunchRequest, StillEnding
from pipeline_core.clusters.factory import cluster
from pipeline_core.settings import settings
from pipeline_core.stages.outcomes import ClaimedStep, Fail, Launched, Outcome, Postpone

ENDING_PAUSE = 1.0
"""Seconds until the next launch of a job whose earlier attempt has not ended yet."""
UNAVAILABLE_PAUSE = 10.0
"""Seconds until the next launch after the cluster was unavailable."""


def run(step: ClaimedStep) -> Outcome:
    """Start the job in the cluster, unless it is there already."""
    name = settings().cluster_name
    request = LaunchRequest(step.job_id, step.namespace, step.user_id, step.taskset or {}, step.attempt)
    try:
        return Launched(observation=cluster().launch(request))
    except StillEnding as error:
        return Postpone(reason=error.message, seconds=ENDING_PAUSE)
    except ClusterUnavailable as error:
        return Postpone(reason=f"The cluster {name} cannot be used: {error.message}", seconds=UNAVAILABLE_PAUSE)
    except ClusterError as error:
        return Fail(trail=(), reason=f"The cluster {name} refused the TaskSet: {error.message}")
