"""What the watch tells of pods, and when it is not enough to go on."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest

from pipeline_core.clusters.base import Observation
from pipeline_core.clusters.kubernetes.rules import WaitLimits
from pipeline_core.clusters.kubernetes.watch import ObservationCache
from pipeline_core.states import ReplicaState
from tests.unit.clusters.kubernetes.pods import NOW, ended, make, running, waiting

UNIT = {
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


def replica(pod: dict[str, Any], index: int, tries: int = 0, attempt: int = 0, owner: str = "uid-of-c") -> Any:
    made = copy.deepcopy(pod)
    metadata = made["metadata"]
    metadata.update(name=f"j1-worker-{attempt}-{tries}-{index}")
    metadata["labels"]["pipeline/attempt"] = str(attempt)
    metadata["ownerReferences"][0]["uid"] = owner
    return made


def told(*pods: dict[str, Any]) -> ObservationCache:
    """A watch that has begun with these pods and their control unit."""
    found = ObservationCache(WaitLimits(timedelta(seconds=300), timedelta(days=1)))
    found.begin("ns", pods)
    found.know(UNIT)
    return found


def states(observation: Observation | None) -> dict[int, str]:
    assert observation is not None
    return {report.index: report.state.value for report in observation.replicas}


def test_plain_pods_say_how_a_job_fares() -> None:
    found = told(replica(WAITS, 0), replica(RUNS, 1), replica(DONE, 2)).observation("j1")
    assert states(found) == {0: "waiting", 1: "running", 2: "succeeded"}
    assert found is not None
    assert (found.attempt, found.cleared) == (0, False)
    assert found.platform == {
        "platform": "kubernetes",
        "namespace": "ns",
        "controlUnit": "c-j1-0",
        "unitResults": {"task_finished": 1},
    }


def test_changes_are_taken_in_and_repeats_are_no_news() -> None:
    heard = told(replica(WAITS, 0))
    assert heard.take("MODIFIED", replica(WAITS, 0)) is False
    assert heard.take("MODIFIED", replica(RUNS, 0)) is True
    assert states(heard.observation("j1")) == {0: "running"}
    assert heard.take("MODIFIED", replica(DONE, 0)) is True
    assert states(heard.observation("j1")) == {0: "succeeded"}


def test_the_latest_try_of_a_replica_counts() -> None:
    assert states(told(replica(RUNS, 0, tries=1), replica(DONE, 0)).observation("j1")) == {0: "running"}


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
    heard = told(replica(RUNS, 0), replica(RUNS, 1))
    assert heard.take("MODIFIED", replica(pod, 1)) is True
    assert heard.observation("j1") is None
    assert states(heard.observation("j1")) == {0: "running"}, "once it was asked, others are told of as before"


def test_what_a_pod_came_to_is_told_of_all_together_only() -> None:
    heard = told(replica(RUNS, 0), replica(FAILED, 1))
    heard.observation("j1")
    heard.take("MODIFIED", replica(DONE, 0))
    assert heard.observation("j1") is None


def test_the_cluster_is_asked_about_a_job_that_is_not_known() -> None:
    heard = told()
    assert heard.observation("j1") is None
    heard.take("ADDED", replica(RUNS, 0))
    assert heard.observation("j1") is None
    heard.know(UNIT)
    assert states(heard.observation("j1")) == {0: "running"}


def test_pods_of_others_do_not_count() -> None:
    heard = told(replica(RUNS, 0), replica(DONE, 1, owner="somebody"))
    assert states(heard.observation("j1")) == {0: "running"}
    guest = replica(RUNS, 2)
    del guest["metadata"]["ownerReferences"]
    assert heard.take("ADDED", guest) is True
    assert heard.observation("j1") is None


def test_the_cluster_is_asked_when_a_later_attempt_begins() -> None:
    heard = told(replica(DONE, 0))
    heard.take("ADDED", replica(WAITS, 0, attempt=1, owner="uid-of-c1"))
    assert heard.observation("j1") is None
    later = copy.deepcopy(UNIT)
    later["metadata"].update(uid="uid-of-c1", labels={"pipeline/job-id": "j1", "pipeline/attempt": "1"})
    heard.know(later)
    found = heard.observation("j1")
    assert (found and found.attempt, states(found)) == (1, {0: "waiting"})


def test_a_pod_that_goes_while_it_runs_is_asked_about_and_one_that_had_ended_is_no_news() -> None:
    heard = told(replica(RUNS, 0), replica(DONE, 1))
    assert heard.take("DELETED", replica(DONE, 1)) is False
    assert heard.take("DELETED", replica(RUNS, 0)) is True
    assert heard.observation("j1") is None


def test_nothing_is_kept_of_a_job_whose_pods_are_gone() -> None:
    heard = told(replica(DONE, 0))
    heard.take("DELETED", replica(DONE, 0))
    heard.know(UNIT)
    assert not heard._jobs


def test_pods_that_went_while_nobody_listened_are_asked_about() -> None:
    heard = told(replica(RUNS, 0), replica(DONE, 1), replica(RUNS, 2))
    assert heard.begin("ns", [replica(RUNS, 0), replica(RUNS, 2)]) == []
    heard.know(UNIT)
    assert heard.begin("ns", [replica(RUNS, 0)]) == ["j1"]
    heard.know(UNIT)
    assert heard.observation("j1") is None
    assert heard.begin("elsewhere", []) == []
    assert states(heard.observation("j1")) == {0: "running"}


def test_a_told_replica_is_as_an_observed_one() -> None:
    found = told(replica(DONE, 2)).observation("j1")
    assert found is not None
    (report,) = found.replicas
    assert (report.state, report.exit_code, report.pod_name) == (ReplicaState.SUCCEEDED, 0, "j1-worker-0-0-2")
