"""Applying cached observations of many jobs at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update

from api.schemas.jobs import Submit
from pipeline_core.auth.actor import Actor
from pipeline_core.clusters.base import Observation, ReplicaKey, ReplicaReport
from pipeline_core.clusters.null import NullCluster
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Event, Job, JobDocument, Replica
from pipeline_core.jobs import claims, control, cursor, lifecycle, rollup
from pipeline_core.jobs.submission import submit
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, Fail, Launched
from pipeline_core.states import ReplicaState

ADMIN = Actor(name="admin", admin=True)
pytestmark = pytest.mark.usefixtures("service_settings")
W, R, S, F = ReplicaState.WAITING, ReplicaState.RUNNING, ReplicaState.SUCCEEDED, ReplicaState.FAILED


class WatchingCluster(NullCluster):
    """Returns the observations in `cached` and `observed`, and records what was deleted."""

    def __init__(self) -> None:
        super().__init__("watching")
        self.cached: dict[str, Observation] = {}
        self.observed: dict[str, Observation] = {}
        self.deleted: dict[str, Any] = {}

    def cached_observation(self, job_id: str) -> Observation | None:
        return self.cached.get(job_id)

    def observe(self, job_id: str, *, usage: bool = False) -> Observation | None:
        return self.observed.get(job_id)

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


def launching(*others: dict[str, Any], replicas: int = 2, **role: Any) -> tuple[str, ClaimedStep]:
    """A job whose launch is under way, and its claimed step."""
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
    claim = claims.claim(job_id, 0, Stage.LAUNCH, "w1")
    assert isinstance(claim, ClaimedStep)
    return job_id, claim


def finish_launch(claim: ClaimedStep, replicas: int = 2, **platform: Any) -> None:
    """Write the launch, with all replicas waiting."""
    waiting = tuple(report(index, W) for index in range(replicas))
    cursor.finish(claim, Launched(observation=Observation(claim.job_id, claim.attempt, waiting, platform)))


def launched(*others: dict[str, Any], replicas: int = 2, **role: Any) -> str:
    """A job whose replicas wait in the cluster."""
    job_id, claim = launching(*others, replicas=replicas, **role)
    finish_launch(claim, replicas)
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


def platform_of(job_id: str) -> Any:
    with transaction() as session:
        return session.scalar(select(JobDocument.platform).where(JobDocument.job_id == job_id))


@pytest.mark.parametrize("cached", [True, False])
def test_what_is_seen_before_the_launch_is_written_counts_when_it_is(cluster: WatchingCluster, cached: bool) -> None:
    starting, starting_claim = launching()
    ended, ended_claim = launching()
    early = observed(starting, report(0, R)) | observed(
        ended, report(0, S), report(1, S), controlUnit="c", unitResults={"task_finished": 2}
    )
    if cached:
        cluster.cached = early
        assert rollup.apply_cached_observations([starting, ended]) == []
    else:
        cluster.observed = early
        for job_id in early:
            rollup.observe(job_id)
    assert [events_of(one) for one in (starting, ended)] == [["waiting"], ["waiting"]]
    finish_launch(starting_claim)
    finish_launch(ended_claim, controlUnit="c", unitResults={})
    assert events_of(starting) == ["waiting", "running"]
    assert events_of(ended) == ["waiting", "running", "succeeded"]
    assert replicas_of(starting) == ["running", "waiting"]
    assert platform_of(ended)["unitResults"] == {"task_finished": 2}


def test_the_next_attempt_of_a_taskset_begins_with_what_was_seen_early_of_it_alone(cluster: WatchingCluster) -> None:
    job_id = launched()
    with transaction() as session:
        job = session.get_one(Job, job_id)
        session.execute(update(Replica).where(Replica.job_id == job_id).values(state=S))
        job.attempt, job.stage = 1, Stage.LAUNCH
        lifecycle.enqueue_step(session, job, Stage.LAUNCH, now())
        epoch = job.epoch
    claim = claims.claim(job_id, epoch, Stage.LAUNCH, "w1")
    assert isinstance(claim, ClaimedStep)
    cluster.cached = observed(job_id, report(0, F), attempt=0)
    rollup.apply_cached_observations([job_id])
    cluster.cached = observed(job_id, report(1, R), attempt=1)
    rollup.apply_cached_observations([job_id])
    finish_launch(claim)
    assert replicas_of(job_id) == ["waiting", "running"]
    assert job_of(job_id).state == "running"


def test_a_launch_that_fails_leaves_no_replica_running(cluster: WatchingCluster) -> None:
    job_id, claim = launching()
    cluster.cached = observed(job_id, report(0, R))
    rollup.apply_cached_observations([job_id])
    cursor.finish(claim, Fail(trail=(), reason="The cluster refused the TaskSet."))
    assert (job_of(job_id).state, replicas_of(job_id)) == ("failed", ["stopped"])


def test_an_older_observation_does_not_take_outcomes_back(cluster: WatchingCluster) -> None:
    job_id = launched()
    cluster.cached = observed(job_id, report(0, S), controlUnit="c", unitResults={"task_finished": 1})
    rollup.apply_cached_observations([job_id])
    cluster.observed = observed(job_id, report(0, R), controlUnit="c", unitResults={})
    rollup.observe(job_id)
    assert platform_of(job_id)["unitResults"] == {"task_finished": 1}


def test_a_waiting_job_has_the_reason_of_its_replica_until_one_runs(cluster: WatchingCluster) -> None:
    job_id = launched()
    waiting = replace(report(1, W), reason="Unschedulable", diagnostics="0/3 nodes are available")
    cluster.cached = observed(job_id, report(0, W), waiting)
    rollup.apply_cached_observations([job_id])
    assert (job_of(job_id).state, job_of(job_id).reason) == (
        "waiting",
        "worker-1 waits: Unschedulable: 0/3 nodes are available",
    )
    cluster.cached = observed(job_id, report(0, R), waiting)
    rollup.apply_cached_observations([job_id])
    assert (job_of(job_id).state, job_of(job_id).reason) == ("running", "")
