"""Applying cached observations of many jobs at once."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from api.schemas.jobs import Submit
from pipeline_core.auth.actor import Actor
from pipeline_core.clusters.base import Observation, ReplicaKey, ReplicaReport
from pipeline_core.clusters.null import NullCluster
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Event, Job, JobDocument, Replica
from pipeline_core.jobs import control, cursor, rollup
from pipeline_core.jobs.submission import submit
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, Launched
from pipeline_core.states import ReplicaState

ADMIN = Actor(name="admin", admin=True)
pytestmark = pytest.mark.usefixtures("service_settings")
W, R, S = ReplicaState.WAITING, ReplicaState.RUNNING, ReplicaState.SUCCEEDED


class WatchingCluster(NullCluster):
    """Returns the observations in `cached`, and records what was deleted."""

    def __init__(self) -> None:
        super().__init__("watching")
        self.cached: dict[str, Observation] = {}
        self.deleted: dict[str, Any] = {}

    def cached_observation(self, job_id: str) -> Observation | None:
        return self.cached.get(job_id)

    def delete(self, job_id: str, replicas: Any = None) -> bool:
        self.deleted[job_id] = replicas
        return True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> WatchingCluster:
    found = WatchingCluster()
    monkeypatch.setattr(rollup, "cluster", lambda: found)
    return found


def report(index: int, state: ReplicaState, attempt: int = 0) -> ReplicaReport:
    moment = now()
    return ReplicaReport(
        "worker",
        index,
        state,
        attempt,
        exit_code=0 if state is S else None,
        started_at=None if state is W else moment,
        finished_at=moment if state.ended else None,
    )


def observed(job_id: str, *reports: ReplicaReport, attempt: int = 0, **platform: Any) -> dict[str, Observation]:
    return {job_id: Observation(job_id, attempt, reports, platform)}


def launched(*others: dict[str, Any], replicas: int = 2, **role: Any) -> str:
    """A job whose replicas wait in the cluster."""
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    roles = [
        {"name": "worker", "replicas": replicas, "template": {"spec": {"containers": [container]}}, **role},
        *others,
    ]
    taskset = {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1", "kind": "TaskSet", "metadata": {}, "spec": {"roles": roles},
    }  # fmt: skip
    raw = {"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": taskset}
    job_id = submit(Submit().read(raw), ADMIN)
    claim = cursor.claim(job_id, 0, Stage.LAUNCH, "w1")
    assert isinstance(claim, ClaimedStep)
    waiting = tuple(report(index, W) for index in range(replicas))
    cursor.finish(claim, Launched(observation=Observation(job_id, 0, waiting)))
    return job_id


def job_of(job_id: str) -> Job:
    with transaction() as session:
        return session.execute(select(Job).where(Job.id == job_id)).scalar_one()


def replicas_of(job_id: str) -> list[str]:
    with transaction() as session:
        return list(session.scalars(select(Replica.state).where(Replica.job_id == job_id).order_by(Replica.index)))


def events_of(job_id: str) -> list[str]:
    with transaction() as session:
        return list(session.scalars(select(Event.state).where(Event.job_id == job_id).order_by(Event.sequence)))


def test_observations_of_many_jobs_are_applied_in_one_transaction(cluster: WatchingCluster) -> None:
    starting, ending, quiet = launched(), launched(), launched()
    cluster.cached = (
        observed(starting, report(0, R)) | observed(ending, report(0, S), report(1, S), unitResults={"task_finished": 2})
    )  # fmt: skip
    assert rollup.apply_cached_observations([starting, ending, quiet]) == [quiet], "it has no cached observation"
    assert [job_of(one).state for one in (starting, ending, quiet)] == ["running", "succeeded", "waiting"]
    assert [replicas_of(one) for one in (starting, ending)] == [["running", "waiting"], ["succeeded", "succeeded"]]
    assert events_of(ending) == ["waiting", "running", "succeeded"]
    with transaction() as session:
        platform = session.scalar(select(JobDocument.platform).where(JobDocument.job_id == ending))
    assert platform == {"unitResults": {"task_finished": 2}}


def test_repeated_and_older_observations_change_nothing(cluster: WatchingCluster) -> None:
    job_id = launched()
    cluster.cached = observed(job_id, report(0, R))
    rollup.apply_cached_observations([job_id])
    before = job_of(job_id)
    rollup.apply_cached_observations([job_id])
    cluster.cached = observed(job_id, report(0, W))
    rollup.apply_cached_observations([job_id])
    assert replicas_of(job_id) == ["running", "waiting"]
    assert (job_of(job_id).state, events_of(job_id)) == (before.state, ["waiting", "running"])


def test_a_cached_observation_does_not_change_last_observed_at(cluster: WatchingCluster) -> None:
    job_id = launched()
    before = job_of(job_id).last_observed_at
    cluster.cached = observed(job_id, report(0, R))
    rollup.apply_cached_observations([job_id])
    assert job_of(job_id).last_observed_at == before


def test_other_attempts_and_jobs_that_ended_are_left_as_they_are(cluster: WatchingCluster) -> None:
    later, stopped = launched(), launched()
    control.stop(stopped, ADMIN)
    cluster.cached = (
        observed(later, report(0, S), attempt=1) | observed(stopped, report(0, R)) | observed("jgone", report(0, R))
    )
    assert rollup.apply_cached_observations([later, stopped, "jgone"]) == []
    assert (job_of(later).state, job_of(stopped).state) == ("waiting", "stopped")
    assert replicas_of(stopped) == ["stopped", "stopped"]


def test_unneeded_replicas_of_a_role_with_a_verdict_are_deleted(cluster: WatchingCluster) -> None:
    pod = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    job_id = launched({"name": "ps", "replicas": 1, "template": pod}, replicas=2, completionPolicy={"minSucceeded": 1})
    cluster.cached = observed(job_id, report(0, S), report(1, R))
    rollup.apply_cached_observations([job_id])
    assert job_of(job_id).state == "running", "the other role goes on"
    assert cluster.deleted == {job_id: (ReplicaKey("worker", 1, 0),)}
