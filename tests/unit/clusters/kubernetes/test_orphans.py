"""Pods that outlive their control ConfigMap."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pipeline_core.clusters.base import ReplicaKey
from pipeline_core.clusters.kubernetes import orphans
from tests.unit.clusters.kubernetes.fake_api import FakeApi
from tests.unit.clusters.kubernetes.pods import ended, make, running
from tests.unit.clusters.kubernetes.test_watch import LIMITS

RUNS = make("Running", running())
DONE = make("Succeeded", ended(0))
PATH = "/api/v1/namespaces/ns/pods"


def pod(base: dict[str, Any], index: int = 0, attempt: int = 0, replica_attempt: int = 0) -> dict[str, Any]:
    made = copy.deepcopy(base)
    made["metadata"]["name"] = f"j1-worker-{attempt}-{replica_attempt}-{index}"
    return made


def test_replicas_whose_pods_are_left_are_reported_and_no_others() -> None:
    found = orphans.observe([pod(RUNS, 0), pod(DONE, 1), pod(RUNS, 1, 0, 1), pod(RUNS, 7, attempt=0)], "j1", LIMITS)
    assert found is not None
    assert [(one.index, one.attempt, one.state.value) for one in found.replicas] == [
        (0, 0, "running"),
        (1, 1, "running"),
        (7, 0, "running"),
    ]
    assert (found.attempt, found.platform) == (0, {})
    later = orphans.observe([pod(RUNS, 0), pod(RUNS, 0, attempt=2)], "j1", LIMITS)
    assert later is not None
    assert (later.attempt, len(later.replicas)) == (2, 1)
    assert orphans.observe([], "j1", LIMITS) is None


@pytest.mark.parametrize(
    ("pods", "key", "blocked"),
    [
        ([], ReplicaKey("worker", 0, 1), False),
        ([pod(RUNS, 0)], ReplicaKey("worker", 0, 1), True),
        ([pod(DONE, 0)], ReplicaKey("worker", 0, 1), False),
        ([pod(RUNS, 1)], ReplicaKey("worker", 0, 1), False),
        ([pod(RUNS, 0, 0, 1)], ReplicaKey("worker", 0, 1), False),
        ([pod(make("Pending"), 0)], ReplicaKey("worker", 0, 1), True),
    ],
)
def test_a_retry_waits_for_the_earlier_attempt_of_its_replica(
    pods: list[dict[str, Any]], key: ReplicaKey, blocked: bool
) -> None:
    assert set(orphans.blocking(pods, 0, [key])) == ({key} if blocked else set())


def test_any_replica_waits_for_the_same_one_of_an_earlier_job_attempt() -> None:
    key = ReplicaKey("worker", 0, 0)
    assert orphans.blocking([pod(RUNS, 0, 0, 3)], 1, [key]) == {key: "j1-worker-0-3-0"}


def test_pods_are_deleted_with_their_grace_time() -> None:
    api = FakeApi()
    api.objects[f"{PATH}/j1-worker-0-0-0"] = pod(RUNS)
    (found,) = orphans.find(api, "j1", ["ns"])
    assert orphans.end(api, [found]) is False
    assert "deletionTimestamp" in api.objects[f"{PATH}/j1-worker-0-0-0"]["metadata"]
    assert orphans.end(api, []) is True


def test_a_pod_of_somebody_else_with_our_label_is_left_alone() -> None:
    api = FakeApi()
    theirs = pod(RUNS)
    theirs["metadata"]["name"] = "theirs"
    api.objects[f"{PATH}/theirs"] = theirs
    assert orphans.find(api, "j1", ["ns"]) == []
