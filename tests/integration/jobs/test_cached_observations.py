"""Taking in what a watch tells of many jobs at once."""

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


class Telling(NullCluster):
    """Tells what it was given to tell, and remembers what was deleted."""

    def __init__(self) -> None:
        super().__init__("telling")
        self.tells: dict[str, Observation] = {}
        self.deleted: dict[str, Any] = {}

    def cached_observation(self, job_id: str) -> Observation | None:
        return self.tells.get(job_id)

    def delete(self, job_id: str, replicas: Any = None) -> bool:
        self.deleted[job_id] = replicas
        return True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Telling:
    found = Telling()
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


def told(job_id: str, *reports: ReplicaReport, attempt: int = 0, **platform: Any) -> dict[str, Observation]:
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


def test_many_jobs_go_on_in_one_go(cluster: Telling) -> None:
    starting, ending, quiet = launched(), launched(), launched()
    cluster.tells = (
        told(starting, report(0, R)) | told(ending, report(0, S), report(1, S), unitResults={"task_finished": 2})
    )  # fmt: skip
    assert rollup.apply_cached_observations([starting, ending, quiet]) == [quiet], "of which nothing was told"
    assert [job_of(one).state for one in (starting, ending, quiet)] == ["running", "succeeded", "waiting"]
    assert [replicas_of(one) for one in (starting, ending)] == [["running", "waiting"], ["succeeded", "succeeded"]]
    assert events_of(ending) == ["waiting", "running", "succeeded"]
    with transaction() as session:
        platform = session.scalar(select(JobDocument.platform).where(JobDocument.job_id == ending))
    assert platform == {"unitResults": {"task_finished": 2}}


def test_what_was_told_already_and_what_is_older_changes_nothing(cluster: Telling) -> None:
    job_id = launched()
    cluster.tells = told(job_id, report(0, R))
    rollup.apply_cached_observations([job_id])
    before = job_of(job_id)
    rollup.apply_cached_observations([job_id])
    cluster.tells = told(job_id, report(0, W))
    rollup.apply_cached_observations([job_id])
    assert replicas_of(job_id) == ["running", "waiting"]
    assert (job_of(job_id).state, events_of(job_id)) == (before.state, ["waiting", "running"])


def test_a_job_that_is_only_told_of_is_still_asked_for_after_a_while(cluster: Telling) -> None:
    job_id = launched()
    heard = job_of(job_id).last_observed_at
    cluster.tells = told(job_id, report(0, R))
    rollup.apply_cached_observations([job_id])
    assert job_of(job_id).last_observed_at == heard


def test_other_attempts_and_jobs_that_ended_are_left_as_they_are(cluster: Telling) -> None:
    later, stopped = launched(), launched()
    control.stop(stopped, ADMIN)
    cluster.tells = told(later, report(0, S), attempt=1) | told(stopped, report(0, R)) | told("jgone", report(0, R))
    assert rollup.apply_cached_observations([later, stopped, "jgone"]) == []
    assert (job_of(later).state, job_of(stopped).state) == ("waiting", "stopped")
    assert replicas_of(stopped) == ["stopped", "stopped"]


def test_replicas_that_a_decided_role_needs_no_more_are_ended(cluster: Telling) -> None:
    pod = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    job_id = launched({"name": "ps", "replicas": 1, "template": pod}, replicas=2, completionPolicy={"minSucceeded": 1})
    cluster.tells = told(job_id, report(0, S), report(1, R))
    rollup.apply_cached_observations([job_id])
    assert job_of(job_id).state == "running", "the other role goes on"
    assert cluster.deleted == {job_id: (ReplicaKey("worker", 1, 0),)}
