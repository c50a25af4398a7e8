"""What the null driver reports."""

from __future__ import annotations

import threading

from pipeline_core.clusters.base import LaunchRequest, LogQuery, ReplicaKey
from pipeline_core.clusters.null import NullCluster
from pipeline_core.states import ReplicaState

TASKSET = {"spec": {"roles": [{"name": "ps", "template": {}}, {"name": "worker", "replicas": 2, "template": {}}]}}


def test_on_the_null_cluster_everything_succeeds_at_once() -> None:
    cluster = NullCluster("nowhere")
    observation = cluster.launch(LaunchRequest("job", "ns", "u", TASKSET, attempt=2))
    assert observation.cleared
    assert observation.attempt == 2
    found = [(replica.role, replica.index, replica.state, replica.exit_code) for replica in observation.replicas]
    assert found == [
        ("ps", 0, ReplicaState.SUCCEEDED, 0),
        ("worker", 0, ReplicaState.SUCCEEDED, 0),
        ("worker", 1, ReplicaState.SUCCEEDED, 0),
    ]
    assert cluster.observe("job") is None
    assert cluster.delete("job") is True
    assert list(cluster.logs("job", LogQuery(follow=True))) == []


def test_the_null_cluster_reports_only_the_requested_replica_attempts() -> None:
    attempts = (ReplicaKey("worker", 1, 3),)
    (replica,) = NullCluster("nowhere").launch(LaunchRequest("job", "ns", "u", TASKSET, replicas=attempts)).replicas
    assert (replica.role, replica.index, replica.attempt) == ("worker", 1, 3)


def test_the_watch_of_the_null_cluster_yields_nothing_at_intervals_until_it_is_stopped() -> None:
    stop = threading.Event()
    names = NullCluster("nowhere").watch(stop)
    assert list(next(names)) == []
    stop.set()
    assert list(names) == []
