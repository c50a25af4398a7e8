"""Collecting the results of jobs from the cluster into the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from api.schemas.jobs import Submit
from pipeline_core.auth.actor import Actor
from pipeline_core.clusters.base import ClusterUnavailable, LaunchRequest, ReplicaResult
from pipeline_core.clusters.local.driver import LocalCluster
from pipeline_core.clusters.null import NullCluster
from pipeline_core.database import transaction
from pipeline_core.database.models import Job
from pipeline_core.jobs import claims, cleanup, control, cursor, results, rollup
from pipeline_core.jobs.detail import detail
from pipeline_core.jobs.submission import submit
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, Launched
from tests.builders import taskset
from tests.integration.clusters.support import ended
from tests.waiting import wait_for

ADMIN = Actor(name="admin", admin=True)
pytestmark = pytest.mark.usefixtures("service_settings")


class Leaving(NullCluster):
    """A cluster in which jobs have results, until they are deleted."""

    def __init__(self) -> None:
        super().__init__("leaving")
        self.left: tuple[ReplicaResult, ...] = (
            ReplicaResult("worker", 0, output=b"a\n", metrics=b"[]"),
            ReplicaResult("worker", 1, output=b"b"),
        )
        self.asked = 0
        self.away = False
        self.meanwhile: Callable[[], object] = lambda: None

    def results(self, job_id: str) -> Iterator[ReplicaResult]:
        self.asked += 1
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        if self.away:
            raise ClusterUnavailable("nobody answers")
        yield from self.left

    def delete(self, job_id: str, replicas: Any = None) -> bool:
        self.left = ()
        return True


@pytest.fixture
def leaving(monkeypatch: pytest.MonkeyPatch) -> Leaving:
    found = Leaving()
    use(monkeypatch, found)
    return found


def use(monkeypatch: pytest.MonkeyPatch, cluster: Any) -> None:
    for module in (cleanup, results, rollup):
        monkeypatch.setattr(module, "cluster", lambda: cluster)


@pytest.fixture
def job_id() -> str:
    """A job that was stopped while it was being launched."""
    found = submitted()
    assert isinstance(claims.claim(found, 0, Stage.LAUNCH, "w1"), ClaimedStep)
    control.stop(found, ADMIN)
    return found


def submitted(script: str = "true") -> str:
    raw = {"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": taskset(script)}
    return submit(Submit().read(raw), ADMIN)


def kept(job_id: str) -> list[tuple[int, str | None, Any]]:
    with transaction() as session:
        return [(one.index, one.output, one.metrics) for one in results.read(session, [job_id]).get(job_id, ())]


def test_results_are_kept_before_everything_is_deleted(leaving: Leaving, job_id: str) -> None:
    cleanup.clean_up(job_id)
    assert leaving.left == ()
    assert kept(job_id) == [(0, "a", []), (1, "b", None)]
    assert [one.output for one in results.get(job_id)] == ["a", "b"]
    assert leaving.asked == 1


def test_collecting_before_cleaning_up_changes_nothing(leaving: Leaving, job_id: str) -> None:
    before = results.get(job_id)
    leaving.left = (ReplicaResult("worker", 0, output=b"another"), ReplicaResult("worker", 2, output=b"c"))
    cleanup.clean_up(job_id)
    assert kept(job_id) == [(0, "a", []), (1, "b", None), (2, "c", None)]
    assert [one.collected_at for one in results.get(job_id)[:2]] == [one.collected_at for one in before]


def test_results_that_a_concurrent_cleanup_stores_are_found(leaving: Leaving, job_id: str) -> None:
    leaving.meanwhile = lambda: cleanup.clean_up(job_id)
    assert [one.output for one in results.get(job_id)] == ["a", "b"]
    assert leaving.left == ()


def test_many_at_once_keep_the_same(leaving: Leaving, job_id: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: [one.output for one in results.collect(job_id)], range(12)))
    assert found == [["a", "b"]] * 12


def test_nothing_is_deleted_while_results_cannot_be_collected(leaving: Leaving, job_id: str) -> None:
    leaving.away = True
    for act in (cleanup.clean_up, results.get):
        with pytest.raises(ClusterUnavailable):
            act(job_id)
    assert leaving.left
    assert kept(job_id) == []


def test_a_job_that_left_nothing_has_no_results(leaving: Leaving, job_id: str) -> None:
    leaving.left = ()
    assert results.get(job_id) == ()
    assert kept(job_id) == []


def test_the_metrics_of_a_job_are_bounded_together(
    leaving: Leaving, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_JOB_METRICS", 5)
    leaving.left = tuple(ReplicaResult("worker", index, output=b"a", metrics=b"[]") for index in range(4))
    found = results.get(job_id)
    assert [one.metrics for one in found] == [[], [], None, None]
    assert [bool(one.metrics_problem) for one in found] == [False, False, True, True]
    assert [one.output for one in found] == ["a"] * 4


def test_results_go_with_their_job(leaving: Leaving, job_id: str) -> None:
    results.get(job_id)
    with transaction() as session:
        session.execute(delete(Job).where(Job.id == job_id))
    assert kept(job_id) == []
    assert results.get(job_id) == ()


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    found = LocalCluster("here", tmp_path / "local", slots=4, grace_seconds=0.5)
    use(monkeypatch, found)
    return found


@pytest.mark.parametrize(
    ("script", "part"),
    [
        ("echo 0.93 > /output; echo '[]' > /metric.json", {"output": "0.93"}),
        ("head -c 5000 /dev/zero | tr '\\0' x > /output", {"outputProblem": "more than 4096 bytes"}),
        ("echo } > /metric.json; echo a > /output", {"output": "a", "metricsProblem": "is not JSON"}),
        ("true", {}),
    ],
)
def test_detail_shows_what_a_real_replica_left(local: LocalCluster, script: str, part: dict[str, str]) -> None:
    job_id = submitted(script)
    claim = claims.claim(job_id, 0, Stage.LAUNCH, "w1")
    assert isinstance(claim, ClaimedStep)
    cursor.finish(claim, Launched(observation=local.launch(LaunchRequest(job_id, "default", "u1", taskset(script)))))
    ended(local, job_id)
    rollup.observe(job_id)
    wait_for(lambda: cleanup.clean_up(job_id))
    with transaction() as session:
        (task,) = detail(session, job_id, ADMIN)["tasks"]
    (found,) = task["replicas"]
    shown = {name: found[name] for name in ("output", "outputProblem", "metricsProblem") if name in found}
    assert shown.keys() == part.keys()
    assert all(text in shown[name] for name, text in part.items())
