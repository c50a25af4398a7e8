"""The cache of the watch: what it says of a job, and when the cluster has to be asked."""

from __future__ import annotations

import copy
import threading
from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any

import pytest

from pipeline_core.clusters.base import ClusterUnavailable, Observation
from pipeline_core.clusters.kubernetes import watch
from pipeline_core.clusters.kubernetes.pod_rules import WaitLimits
from pipeline_core.clusters.kubernetes.watch import ObservationCache
from pipeline_core.states import ReplicaState
from tests.unit.clusters.kubernetes.fake_api import GONE, FakeApi
from tests.unit.clusters.kubernetes.pods import NOW, ended, make, running, waiting
from tests.waiting import wait_for

LIMITS = WaitLimits(timedelta(seconds=300), timedelta(days=1))
CONTROL = {
    "metadata": {
        "name": "c-j1-0",
        "namespace": "ns",
        "uid": "uid-of-c",
        "labels": {"pipeline/job-id": "j1", "pipeline/attempt": "0"},
    }
}


@pytest.fixture(autouse=True)
def _at_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline_core.clusters.kubernetes.watch.now", lambda: NOW)


WAITS = make("Pending", waiting("ContainerCreating"))
RUNS = make("Running", running())
DONE = make("Succeeded", ended(0))
FAILED = make("Failed", ended(3))


def replica(
    pod: dict[str, Any], index: int, replica_attempt: int = 0, attempt: int = 0, owner: str = "uid-of-c"
) -> Any:
    made = copy.deepcopy(pod)
    metadata = made["metadata"]
    metadata.update(name=f"j1-worker-{attempt}-{replica_attempt}-{index}")
    metadata["labels"]["pipeline/attempt"] = str(attempt)
    metadata["ownerReferences"][0]["uid"] = owner
    return made


def cache_of(*pods: dict[str, Any]) -> ObservationCache:
    """The cache of a watch that has begun with these pods and their control ConfigMap."""
    found = ObservationCache(LIMITS)
    found.reset("ns", pods)
    found.note_control(CONTROL)
    return found


def states(observation: Observation | None) -> dict[int, str]:
    assert observation is not None
    return {report.index: report.state.value for report in observation.replicas}


def test_plain_pods_give_the_states_of_a_job() -> None:
    found = cache_of(replica(WAITS, 0), replica(RUNS, 1), replica(DONE, 2)).observation("j1")
    assert states(found) == {0: "waiting", 1: "running", 2: "succeeded"}
    assert found is not None
    assert (found.attempt, found.cleared) == (0, False)
    assert found.platform == {
        "platform": "kubernetes",
        "namespace": "ns",
        "controlUnit": "c-j1-0",
        "configMapName": "c-j1-0",
        "configMapUID": "uid-of-c",
        "unitResults": {"task_finished": 1},
    }


def test_changes_are_applied_and_repeats_change_nothing() -> None:
    cache = cache_of(replica(WAITS, 0))
    assert cache.apply("MODIFIED", replica(WAITS, 0)) is False
    assert cache.apply("MODIFIED", replica(RUNS, 0)) is True
    assert states(cache.observation("j1")) == {0: "running"}
    assert cache.apply("MODIFIED", replica(DONE, 0)) is True
    assert states(cache.observation("j1")) == {0: "succeeded"}


def test_the_latest_attempt_of_a_replica_counts() -> None:
    assert states(cache_of(replica(RUNS, 0, replica_attempt=1), replica(DONE, 0)).observation("j1")) == {0: "running"}


@pytest.mark.parametrize(
    "pod",
    [
        FAILED,
        make("Running", running(), deleted=20),
        make("Running", running(), annotations={"pipeline/ending-for": "Stopped"}),
        make("Running", running() | {"restartCount": 1}),
        make("Pending", waiting("InvalidImageName")),
        make("Running", ended(0), running(), annotations={"pipeline/sidecars": '["c1"]'}),
    ],
    ids=["failed", "being deleted", "being ended", "started again", "given up", "sidecars to end"],
)
def test_the_cluster_is_asked_where_something_has_to_be_done_or_found_out(pod: Any) -> None:
    cache = cache_of(replica(RUNS, 0), replica(RUNS, 1))
    assert cache.apply("MODIFIED", replica(pod, 1)) is True
    assert cache.observation("j1") is None
    assert states(cache.observation("j1")) == {0: "running"}, "once it was asked, others are observed as before"


def test_outcomes_are_counted_of_all_pods_together_only() -> None:
    cache = cache_of(replica(RUNS, 0), replica(FAILED, 1))
    cache.observation("j1")
    cache.apply("MODIFIED", replica(DONE, 0))
    assert cache.observation("j1") is None


def test_the_cluster_is_asked_about_an_unknown_job() -> None:
    cache = cache_of()
    assert cache.observation("j1") is None
    cache.apply("ADDED", replica(RUNS, 0))
    assert cache.observation("j1") is None
    cache.note_control(CONTROL)
    assert states(cache.observation("j1")) == {0: "running"}


def test_pods_of_others_do_not_count() -> None:
    cache = cache_of(replica(RUNS, 0), replica(DONE, 1, owner="somebody"))
    assert states(cache.observation("j1")) == {0: "running"}
    guest = replica(RUNS, 2)
    del guest["metadata"]["ownerReferences"]
    assert cache.apply("ADDED", guest) is True
    assert cache.observation("j1") is None


def test_the_cluster_is_asked_when_a_later_attempt_begins() -> None:
    cache = cache_of(replica(DONE, 0))
    cache.apply("ADDED", replica(WAITS, 0, attempt=1, owner="uid-of-c1"))
    assert cache.observation("j1") is None
    later = copy.deepcopy(CONTROL)
    later["metadata"].update(uid="uid-of-c1", labels={"pipeline/job-id": "j1", "pipeline/attempt": "1"})
    cache.note_control(later)
    found = cache.observation("j1")
    assert (found and found.attempt, states(found)) == (1, {0: "waiting"})


def test_the_cluster_is_asked_about_a_pod_that_is_deleted_while_it_runs_and_not_after_its_end() -> None:
    cache = cache_of(replica(RUNS, 0), replica(DONE, 1))
    assert cache.apply("DELETED", replica(DONE, 1)) is False
    assert cache.apply("DELETED", replica(RUNS, 0)) is True
    assert cache.observation("j1") is None


def test_a_job_without_pods_is_removed_from_the_cache() -> None:
    cache = cache_of(replica(DONE, 0))
    cache.apply("DELETED", replica(DONE, 0))
    cache.note_control(CONTROL)
    assert not cache._jobs


def test_the_cluster_is_asked_about_pods_that_were_deleted_while_nobody_watched() -> None:
    cache = cache_of(replica(RUNS, 0), replica(DONE, 1), replica(RUNS, 2))
    assert cache.reset("ns", [replica(RUNS, 0), replica(RUNS, 2)]) == []
    cache.note_control(CONTROL)
    assert cache.reset("ns", [replica(RUNS, 0)]) == ["j1"]
    cache.note_control(CONTROL)
    assert cache.observation("j1") is None
    assert cache.reset("elsewhere", []) == []
    assert states(cache.observation("j1")) == {0: "running"}


def test_a_cached_report_is_as_an_observed_one() -> None:
    found = cache_of(replica(DONE, 2)).observation("j1")
    assert found is not None
    (report,) = found.replicas
    assert (report.state, report.exit_code, report.pod_name) == (ReplicaState.SUCCEEDED, 0, "j1-worker-0-0-2")


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def server(*pods: dict[str, Any]) -> FakeApi:
    api = FakeApi()
    api.objects["/api/v1/namespaces/ns/configmaps/c-j1-0"] = copy.deepcopy(CONTROL)
    for pod in pods:
        api.objects[f"/api/v1/namespaces/ns/pods/{pod['metadata']['name']}"] = pod
    return api


def next_jobs(changes: Iterator[Collection[str]]) -> list[str]:
    """The next jobs that are named."""
    return next(list(job_ids) for job_ids in changes if job_ids)


def modified(pod: dict[str, Any], version: str = "7") -> dict[str, Any]:
    return {"type": "MODIFIED", "object": {**pod, "metadata": {**pod["metadata"], "resourceVersion": version}}}


def lists(api: FakeApi) -> int:
    """How often the configmaps were listed."""
    return api.requests.count(("GET", "/api/v1/namespaces/ns/configmaps"))


def test_a_watch_names_all_jobs_then_those_that_change(stop: threading.Event) -> None:
    api = server(replica(WAITS, 0))
    api.watches = [[modified(replica(RUNS, 0))]]
    cache = ObservationCache(LIMITS)
    changes = watch.changes(api, ["ns"], cache, stop, watch.ChangedJobs())
    assert next_jobs(changes) == ["j1"]
    if states(cache.observation("j1")) != {0: "running"}:
        assert next_jobs(changes) == ["j1"]
    assert states(cache.observation("j1")) == {0: "running"}
    stop.set()
    api.closed.set()
    assert list(changes) == []


def test_an_expired_version_makes_the_watch_list_again(stop: threading.Event) -> None:
    api = server(replica(RUNS, 0))
    api.watches = [[GONE]]
    changes = watch.changes(api, ["ns"], ObservationCache(LIMITS), stop, watch.ChangedJobs())
    assert next_jobs(changes) == ["j1"]
    wait_for(lambda: lists(api) == 2, "the second list")
    stop.set()
    api.closed.set()


def test_an_error_that_a_list_does_not_repair_ends_the_watch(stop: threading.Event) -> None:
    api = server()
    api.watches = [[{"type": "ERROR", "object": {"code": 403, "message": "cannot watch resource"}}]]
    api.closed.set()
    with pytest.raises(ClusterUnavailable, match="cannot watch resource"):
        list(watch.changes(api, ["ns"], ObservationCache(LIMITS), stop, watch.ChangedJobs()))


def test_a_line_that_was_cut_off_is_no_change(stop: threading.Event) -> None:
    api = server(replica(RUNS, 0))
    listener = watch._Listener(api, "ns", watch.ChangedJobs(), ObservationCache(LIMITS), threading.Event())
    api.watches = [[modified(replica(RUNS, 0), "8")]]
    assert listener._watch("5") == "8"
    api.watches = [[{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}]]
    assert listener._watch("8") == "9"
    api.cut = True
    api.watches = [[modified(replica(RUNS, 0), "12")]]
    assert listener._watch("9") == "9"
