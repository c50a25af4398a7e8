"""Launch: the TaskSet goes to the cluster. The claim is the intent, committed before the cluster is called; names come
from the job, so that launching again finds what is there."""

from __future__ import annotations

from pipeline_core.clusters.base import ClusterError, ClusterUnavailable, LaunchRequest, StillEnding
from pipeline_core.clusters.factory import cluster
from pipeline_core.stages.outcomes import Claim, Fail, Launched, Outcome, Postpone

ENDING_PAUSE = 1.0
"""Seconds until a launch is tried again that waits for an earlier attempt to end."""
CLUSTER_AWAY_PAUSE = 10.0
"""Seconds until a cluster that was away is tried again."""


def run(claim: Claim) -> Outcome:
    """Make sure that the job is in the cluster."""
    unit = LaunchRequest(claim.job_id, claim.namespace, claim.user_id, claim.job or {}, claim.attempt)
    try:
        return Launched(observation=cluster().launch(unit))
    except StillEnding as error:
        return Postpone(reason=error.message, seconds=ENDING_PAUSE)
    except ClusterUnavailable as error:
        return Postpone(reason=f"The cluster {cluster().name} is away: {error.message}", seconds=CLUSTER_AWAY_PAUSE)
    except ClusterError as error:
        return Fail(trail=(), reason=f"The cluster {cluster().name} refused the TaskSet: {error.message}")
