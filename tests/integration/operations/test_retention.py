from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from sqlalchemy import func, inspect, select, update

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_delivery_id, new_flow_id, new_job_id, new_run_id
from pipeline_core.database import transaction
from pipeline_core.database.engine import engine
from pipeline_core.database.models import (
    AuditEntry,
    Base,
    Cleanup,
    Delivery,
    DeliveryStatus,
    Event,
    FeedChange,
    FlowRow,
    Heartbeat,
    IdempotencyKey,
    Job,
    JobDocument,
    JobResult,
    PortLease,
    Replica,
    RunRow,
    RunSignal,
    ShadowAnswer,
    Step,
    TaskAttempt,
    TaskRunRow,
    TrailRow,
)
from pipeline_core.operations import retention
from pipeline_core.runtime import restart
from pipeline_core.settings import Settings
from tests.servers import delete_rows

OF_A_JOB = (Job, JobDocument, Event, Delivery, TrailRow, ShadowAnswer, Replica, JobResult, Step, PortLease)
PORTS = count(20000)
OLD = timedelta(days=91)


class Cluster:
    def __init__(self) -> None:
        self.pruned: list[str] = []
        self.without_logs: list[str] = []
        self.sizes: dict[str, int] = {}
        self.measured: list[str] = []
        self.away = False

    def prune(self, job_ids: list[str]) -> None:
        with transaction() as session:
            left = session.scalar(select(func.count()).where(Job.id.in_(job_ids)))
        assert left == len(job_ids), "the cluster deletes its part before the rows are gone"
        self.pruned += job_ids

    def log_sizes(self, job_ids: list[str]) -> dict[str, int]:
        if self.away:
            raise ClusterUnavailable("away")
        self.measured += job_ids
        return {job_id: self.sizes.get(job_id, 0) for job_id in job_ids}

    def prune_logs(self, job_ids: list[str]) -> None:
        if self.away:
            raise ClusterUnavailable("away")
        self.without_logs += job_ids


@pytest.fixture
def cluster(service_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    cluster = Cluster()
    monkeypatch.setattr(retention, "cluster", lambda: cluster)
    set_log_days(monkeypatch, 0)
    with transaction() as session:
        delete_rows(session, "jobs", "flows", "deliveries", "feed_changes", "idempotency_keys", "heartbeats", "audit")
    return cluster


def set_log_days(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    monkeypatch.setenv("PIPELINE_LOG_DAYS", str(days))
    restart()


@pytest.fixture
def logs_expire(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    set_log_days(monkeypatch, 30)


def store(
    ended: timedelta | None, *, began: timedelta = OLD, delivery: str = DeliveryStatus.DELIVERED, **of_job: Any
) -> str:
    """A job that ended so long ago (None: it has not), with a row in every table that can belong to it; its ID."""
    moment = now()
    created = moment - max(began, ended or began)
    job_id = new_job_id(created)
    with transaction() as session:
        job = Job(
            id=job_id, user_id="u", name="n", kind="TFJob", namespace="default", state="succeeded" if ended else "waiting",
            stage="cluster", created_at=created, finished_at=moment - ended if ended else None, **of_job,
        )  # fmt: skip
        session.add(job)
        session.flush()
        event = Event(job_id=job_id, sequence=1, state="waiting", occurred_at=created)
        session.add(event)
        session.flush()
        session.add_all(
            [
                JobDocument(job_id=job_id, header={}, submitted={}, factors={}),
                TrailRow(job_id=job_id, epoch=0, stage="gates", started_at=created, outcome="answered"),
                ShadowAnswer(job_id=job_id, stage="gates", plugin_key="k", started_at=created, outcome="answered"),
                Replica(job_id=job_id, role="w", index=0, state="succeeded"),
                JobResult(job_id=job_id, role="w", index=0, output="a", collected_at=created),
                PortLease(job_id=job_id, port=next(PORTS)),
                Step(job_id=job_id, epoch=0, stage="gates", pending_since=created, due_at=created, unreachable={}),
                Delivery(
                    id=new_delivery_id(created), event_id=event.id, subject_id=job_id, sequence=1, plugin_key="k",
                    status=delivery, created_at=created, next_at=created, give_up_at=created,
                ),
            ]
        )  # fmt: skip
    return job_id


def left(model: type[Base]) -> int:
    with transaction() as session:
        return session.scalar(select(func.count()).select_from(model)) or 0


def jobs() -> set[str]:
    with transaction() as session:
        return set(session.scalars(select(Job.id)))


def test_an_old_job_goes_with_all_that_belongs_to_it(cluster: Cluster) -> None:
    old = store(OLD)
    assert retention.enforce(100) == 1
    assert cluster.pruned == [old]
    assert {model.__tablename__: left(model) for model in OF_A_JOB} == {model.__tablename__: 0 for model in OF_A_JOB}


def test_what_is_old_in_the_feed_goes_in_bounded_steps(cluster: Cluster) -> None:
    with transaction() as session:
        session.add_all(
            FeedChange(kind="stage", user_id="u", document={}, occurred_at=now() - age)
            for age in (OLD, OLD, OLD, timedelta(days=1))
        )
    assert [retention.enforce(2) for _ in range(3)] == [2, 1, 0]
    assert left(FeedChange) == 1


def test_every_table_with_a_job_id_is_covered(cluster: Cluster) -> None:
    tables = inspect(engine())
    named = {
        name
        for name in tables.get_table_names()
        if any(column["name"] in ("job_id", "subject_id") for column in tables.get_columns(name))
    }
    gone_with_their_runs = {TaskAttempt.__tablename__, RunSignal.__tablename__}
    assert named - gone_with_their_runs == {model.__tablename__ for model in OF_A_JOB} - {"jobs"}


def store_run(ended: timedelta | None, *, delivery: str = DeliveryStatus.DELIVERED) -> str:
    """A run that ended so long ago (None: it has not), with a task and an alert; its ID."""
    moment = now()
    began = moment - OLD - timedelta(days=1)
    flow_id, run_id = new_flow_id(began), new_run_id(began)
    with transaction() as session:
        session.add(
            FlowRow(
                id=flow_id, key=flow_id, document_key="f", entry={}, creator="u", created_at=began, updated_at=began
            )
        )
        session.flush()
        session.add(
            RunRow(
                id=run_id, flow_id=flow_id, trigger="manual", execution_date=began, state="succeeded", creator="u",
                runner="u", created_at=began, finished_at=moment - ended if ended else None,
            )
        )  # fmt: skip
        session.flush()
        session.add(TaskRunRow(run_id=run_id, key="t", position=0, name="t", state="succeeded"))
        session.add(
            Delivery(
                id=new_delivery_id(began), subject_id=run_id, sequence=1, plugin_key="alerts", body={}, status=delivery,
                created_at=began, next_at=began, give_up_at=began,
            )
        )  # fmt: skip
    return run_id


def test_an_old_run_goes_with_its_tasks_and_its_alerts(cluster: Cluster) -> None:
    store_run(OLD)
    kept = {store_run(timedelta(days=89)), store_run(None), store_run(OLD, delivery=DeliveryStatus.WAITING)}
    assert retention.enforce(100) == 1
    with transaction() as session:
        assert set(session.scalars(select(RunRow.id))) == kept
        assert set(session.scalars(select(TaskRunRow.run_id))) == kept
        assert set(session.scalars(select(Delivery.subject_id))) == kept


def test_young_unfinished_and_undelivered_jobs_stay(cluster: Cluster) -> None:
    kept = {
        store(timedelta(days=89), began=timedelta(days=200)),
        store(None, began=timedelta(days=400)),
        store(OLD, cleanup=Cleanup.PENDING),
        store(OLD, delivery=DeliveryStatus.WAITING),
    }
    gone = store(OLD, cleanup=Cleanup.DONE)
    assert retention.enforce(100) == 1
    assert (jobs(), cluster.pruned) == (kept, [gone])


def test_old_jobs_go_in_batches(cluster: Cluster) -> None:
    for _ in range(5):
        store(OLD)
    assert [retention.enforce(2) for _ in range(4)] == [2, 2, 1, 0]


def test_nothing_is_deleted_when_retention_is_off(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    store(OLD * 10)
    monkeypatch.setenv("PIPELINE_RETENTION_DAYS", "0")
    restart()
    assert retention.enforce(100) == 0


@pytest.mark.usefixtures("logs_expire")
def test_logs_are_deleted_before_their_jobs_and_the_time_is_stored(cluster: Cluster) -> None:
    old, young = store(timedelta(days=31)), store(timedelta(days=29), began=timedelta(days=60))
    store(None, began=timedelta(days=400))
    store(timedelta(days=31), cleanup=Cleanup.PENDING)
    before = now()
    assert retention.enforce(100) == 1
    assert (cluster.without_logs, cluster.pruned) == ([old], [])
    with transaction() as session:
        times = {job.id: job.logs_pruned_at for job in session.scalars(select(Job))}
    assert before <= (times[old] or before) <= now()
    assert times[young] is None
    assert retention.enforce(100) == 0


@pytest.mark.usefixtures("logs_expire")
def test_logs_are_deleted_in_batches_and_retried_after_the_cluster_was_unavailable(cluster: Cluster) -> None:
    for days in (35, 34, 33, 32, 31):
        store(timedelta(days=days))
    cluster.away = True
    with pytest.raises(ClusterUnavailable):
        retention.enforce(2)
    cluster.away = False
    assert [retention.enforce(2) for _ in range(4)] == [2, 2, 1, 0]
    assert len(set(cluster.without_logs)) == 5


def test_logs_are_kept_as_long_as_their_jobs_when_log_days_is_0(cluster: Cluster) -> None:
    store(timedelta(days=80))
    assert retention.enforce(100) == 0
    assert cluster.without_logs == []


def test_beyond_the_limit_of_their_size_the_oldest_logs_are_deleted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINE_LOG_TOTAL_BYTES", "100")
    restart()
    oldest, second, third, newest = (store(timedelta(days=days)) for days in (4, 3, 2, 1))
    store(None, began=timedelta(days=5))
    store(timedelta(days=6), cleanup=Cleanup.PENDING)
    cluster.sizes = {oldest: 10, second: 10, third: 40, newest: 50}
    cluster.away = True
    with pytest.raises(ClusterUnavailable):
        retention.enforce(100)
    cluster.away = False
    assert [retention.enforce(100) for _ in range(2)] == [1, 0]
    assert cluster.without_logs == [oldest]
    assert cluster.measured == [oldest, second, third, newest]
    largest = store(timedelta(hours=1))
    cluster.sizes[largest] = 99
    assert [retention.enforce(2) for _ in range(3)] == [2, 1, 0]
    assert cluster.without_logs == [oldest, second, third, newest]
    cluster.sizes[store(timedelta(minutes=1))] = 1
    assert retention.enforce(100) == 0


def test_the_size_of_logs_is_not_measured_without_a_limit(cluster: Cluster) -> None:
    store(timedelta(days=1))
    assert retention.enforce(100) == 0
    assert cluster.measured == []


def test_idempotency_keys_go_after_a_day_in_batches(cluster: Cluster) -> None:
    with transaction() as session:
        for hours in (23, 25, 26, 27):
            created = now() - timedelta(hours=hours)
            session.add(IdempotencyKey(token_id="t", key=str(hours), digest="", made_id="j", created_at=created))
    assert [retention.enforce(2) for _ in range(3)] == [2, 1, 0]
    with transaction() as session:
        assert list(session.scalars(select(IdempotencyKey.key))) == ["23"]


def test_old_heartbeats_of_workers_are_deleted_and_beats_is_not(cluster: Cluster) -> None:
    with transaction() as session:
        for name in ("beat", "worker/gone@host", "worker/here@host"):
            session.add(Heartbeat(name=name, at=now()))
        session.flush()
        session.execute(
            update(Heartbeat).where(Heartbeat.name != "worker/here@host").values(at=now() - timedelta(hours=2))
        )
    assert retention.enforce(100) == 1
    with transaction() as session:
        assert set(session.scalars(select(Heartbeat.name))) == {"beat", "worker/here@host"}


def test_the_audit_log_is_kept(cluster: Cluster) -> None:
    with transaction() as session:
        session.add(AuditEntry(at=now() - OLD * 10, actor="admin", action="job.stop", target=store(OLD)))
    retention.enforce(100)
    assert left(AuditEntry) == 1
