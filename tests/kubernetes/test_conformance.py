"""The suite that every driver passes, on a node that runs pods for real.

Where a node's kubelet is older than those that are supported, it keeps three of the tests from saying what they say of
others; their place is taken by those at the end.
"""

from __future__ import annotations

from pipeline_core.clusters.base import Cluster
from pipeline_core.states import ReplicaState
from tests.builders import container, launch_request, role, script_request
from tests.integration.clusters.support import gone, seen, texts, the_end
from tests.integration.clusters.test_cluster_conformance import *  # noqa: F403
from tests.waiting import wait_for

LOOP = "while :; do sleep 0.05; done"


def test_a_replica_may_end_well_within_its_grace_time(cluster: Cluster) -> None:
    """Before 1.22 a kubelet does not report exit codes once a deadline has passed."""
    script = f"trap 'echo bye; exit 7' TERM; echo ready; {LOOP}"
    cluster.launch(launch_request("job", role("worker", container(script), terminationGracePeriodSeconds=5)))
    wait_for(lambda: texts(cluster, "job") == ["ready"])
    gone(cluster, "job")
    (replica,) = seen(cluster, "job").replicas
    assert (replica.state, replica.exit_code in (7, None)) == (ReplicaState.STOPPED, True)
    assert texts(cluster, "job")[-1] == "bye"


def test_a_replica_that_ignores_its_grace_time_is_killed(cluster: Cluster) -> None:
    """As above."""
    cluster.launch(script_request("job", f"trap '' TERM; echo ready; {LOOP}"))
    wait_for(lambda: texts(cluster, "job") == ["ready"])
    gone(cluster, "job")
    (replica,) = seen(cluster, "job").replicas
    assert (replica.state, replica.exit_code in (137, None)) == (ReplicaState.STOPPED, True)


def test_sidecars_do_not_count_and_end_with_the_others(cluster: Cluster) -> None:
    """Before 1.28 there are no native sidecars."""
    sidecar = container(f"trap 'echo side ends; exit 9' TERM; {LOOP}", "side")
    annotations = {"pipeline/sidecars": '["side"]'}
    main = container("sleep 0.3; echo main ends")
    pod = role("worker", main, sidecar, annotations=annotations, terminationGracePeriodSeconds=5)
    replica = the_end(cluster, launch_request("job", pod))
    assert (replica.state, replica.exit_code) == (ReplicaState.SUCCEEDED, 0)
    assert [line for line in texts(cluster, "job") if line.endswith("ends")] == ["main ends", "side ends"]
