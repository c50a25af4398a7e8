"""Cleaning up after jobs that have ended, and keeping their pods for PIPELINE_POD_TTL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from api.schemas.jobs import Submit
from pipeline_core.auth.actor import Actor
from pipeline_core.clusters import factory
from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.null import NullCluster
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import Job
from pipeline_core.jobs import claims, cleanup, control
from pipeline_core.jobs.detail import detail
from pipeline_core.jobs.submission import submit
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep
from workers.tasks import probes, ticks

ADMIN = Actor(name="admin", admin=True)
pytestmark = pytest.mark.usefixtures("service_settings")


class Pods(NullCluster):
    """Has pods that run until `end` was called twice, and that stay until they are deleted."""

    def __init__(self) -> None:
        super().__init__("pods")
        self.runs = 1
        self.left = True
        self.away = False

    def end(self, job_id: str) -> bool:
        if self.away:
            raise ClusterUnavailable("nobody answers")
        self.runs -= 1
        return self.runs < 0

    def delete(self, job_id: str, replicas: Any = None) -> bool:
        self.left = not self.end(job_id)
        return not self.left


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Pods:
    found = Pods()
    monkeypatch.setattr(cleanup, "cluster", lambda: found)
    return found


@pytest.fixture
def ttl(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets PIPELINE_POD_TTL of a driver."""

    def set_ttl(seconds: float, driver: str = "kubernetes") -> None:
        chosen = replace(settings(), pod_ttl=seconds, cluster_driver=driver)
        monkeypatch.setattr(cleanup, "settings", lambda: chosen)

    return set_ttl


@pytest.fixture
def job_id() -> str:
    """A job that was stopped after its launch."""
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    role = {"name": "worker", "template": {"spec": {"containers": [container]}}}
    taskset = {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1", "kind": "TaskSet", "metadata": {}, "spec": {"roles": [role]},
    }  # fmt: skip
    made = submit(Submit().read({"userID": "u1", "jobName": "train", "jobKind": "TaskSet", "job": taskset}), ADMIN)
    assert isinstance(claims.claim(made, 0, Stage.LAUNCH, "w1"), ClaimedStep)
    control.stop(made, ADMIN)
    with transaction() as session:
        session.execute(update(Job).where(Job.id == made).values(cleanup_after=None))
    return made


def row(job_id: str) -> Job:
    with transaction() as session:
        return session.execute(select(Job).where(Job.id == job_id)).scalar_one()


def age(job_id: str, seconds: float) -> None:
    """Move the job's times into the past, as if so many seconds had passed."""
    with transaction() as session:
        session.execute(
            update(Job)
            .where(Job.id == job_id)
            .values(
                finished_at=Job.finished_at - timedelta(seconds=seconds),
                kept_until=Job.kept_until - timedelta(seconds=seconds),
            )
        )


def test_pods_are_deleted_at_once_without_a_ttl(pods: Pods, ttl: Any, job_id: str) -> None:
    ttl(0)
    assert [cleanup.clean_up(job_id), cleanup.clean_up(job_id)] == [False, True]
    assert (row(job_id).cleanup, pods.left) == ("done", False)


def test_running_pods_are_ended_at_once_and_deleted_after_the_ttl(pods: Pods, ttl: Any, job_id: str) -> None:
    ttl(600)
    assert cleanup.clean_up(job_id) is False
    assert job_id in cleanup.pending(500), "something runs yet"
    assert cleanup.clean_up(job_id) is False
    assert pods.left
    assert job_id not in cleanup.pending(500), "nobody needs to look at it until then"
    age(job_id, 601)
    assert job_id in cleanup.pending(500)
    assert cleanup.clean_up(job_id) is True
    assert (row(job_id).cleanup, pods.left) == ("done", False)


def test_detail_is_the_same_before_and_after_cleanup(pods: Pods, ttl: Any, job_id: str) -> None:
    def metrics_now() -> Any:
        with transaction() as session:
            found = detail(session, job_id, ADMIN)
        found["job"].pop("cleanup")
        return found

    ttl(600)
    while job_id in cleanup.pending(500):
        cleanup.clean_up(job_id)
    before = metrics_now()
    with transaction() as session:
        session.execute(update(Job).where(Job.id == job_id).values(kept_until=now()))
    ttl(0)
    cleanup.clean_up(job_id)
    assert not pods.left
    assert metrics_now() == before


def test_cleanup_is_retried_after_the_cluster_was_unavailable(pods: Pods, ttl: Any, job_id: str) -> None:
    ttl(600)
    pods.away = True
    with pytest.raises(ClusterUnavailable):
        cleanup.clean_up(job_id)
    assert job_id in cleanup.pending(500)
    assert row(job_id).kept_until is None


def test_a_launch_that_comes_late_is_ended_though_pods_are_kept(pods: Pods, ttl: Any, job_id: str) -> None:
    ttl(600)
    while job_id in cleanup.pending(500):
        cleanup.clean_up(job_id)
    pods.runs = 1
    cleanup.delete_late_launch(job_id)
    assert pods.runs == 0
    assert job_id in cleanup.pending(500), "until it has ended"


@pytest.mark.parametrize("driver", ["local", "null"])
def test_other_clusters_have_no_pods_to_keep(pods: Pods, ttl: Any, job_id: str, driver: str) -> None:
    ttl(600, driver)
    pods.runs = 0
    assert cleanup.clean_up(job_id) is True
    assert row(job_id).cleanup == "done"


def test_every_driver_can_end_a_job() -> None:
    assert NullCluster("null").end("j1") is True
    assert factory.cluster().end("j1") is True


def test_a_forged_message_ends_no_running_job(pods: Pods, ttl: Any, job_id: str) -> None:
    ttl(0)
    with transaction() as session:
        session.execute(update(Job).where(Job.id == job_id).values(state="running", finished_at=None))
    for forged in (job_id, "j0"):
        assert not ticks.has_ended(forged)
        ticks.clean(forged)
    assert pods.left
    with transaction() as session:
        session.execute(update(Job).where(Job.id == job_id).values(state="stopped", finished_at=now()))
    assert ticks.has_ended(job_id)


def test_a_forged_queue_probe_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(probes.queue_probes, "arrived", noted.append)
    for queue in ("hooks", "forged", ["hooks"], None):
        probes.probe_arrived(queue)
    assert noted == ["hooks"]
