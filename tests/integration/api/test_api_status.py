from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import delete, select, update

from api.resources import metrics
from pipeline_core.auth.privileges import Privilege
from pipeline_core.common.clock import now, rfc3339
from pipeline_core.common.ids import new_delivery_id
from pipeline_core.database import transaction
from pipeline_core.database.models import ClusterHealthRow, Delivery, Event, Heartbeat, Job, Step, TrailRow
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.operations import cluster_health, health_checks, heartbeats, queue_probes, status
from pipeline_core.plugins.client import client
from pipeline_core.plugins.errors import PluginUnavailable
from pipeline_core.runtime import restart
from pipeline_core.settings import settings
from tests.builders import flow_entry
from tests.flows import begin, store
from tests.servers import delete_rows
from workers import names

AWAY = "redis://127.0.0.1:1/0"
HOOK = {
    "name": "bell",
    "author": "ops",
    "plugins": [{"pluginType": "LifeHook", "callAddress": "http://127.0.0.1:9/", "description": "d"}],
}


@pytest.fixture(autouse=True)
def no_heartbeats(app: Flask) -> None:
    """Deletes the heartbeats and the cluster health of earlier tests."""
    with transaction() as session:
        delete_rows(session, "heartbeats", "cluster_health")


@pytest.fixture(autouse=True)
def up_since(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how many seconds the service has been up, as a list of one: for long, unless a test says otherwise."""
    up = [86400.0]
    monkeypatch.setattr(status, "up_seconds", lambda: up[0])
    return up


def numbers() -> dict[str, float]:
    """What is scraped, by `name{label="value"}`, the labels in the order of their names."""
    registry = CollectorRegistry()
    registry.register(metrics.ServiceCollector())
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def age(job_id: str, **columns: Any) -> None:
    with transaction() as session:
        session.execute(update(Step).where(Step.job_id == job_id).values(**columns))


def silence(name: str, seconds: float) -> None:
    with transaction() as session:
        session.execute(update(Heartbeat).where(Heartbeat.name == name).values(at=now() - timedelta(seconds=seconds)))


def alive() -> None:
    for name in (heartbeats.BEAT, f"{heartbeats.WORKER}stages1@here"):
        heartbeats.beat(name)
    for queue in names.queues():
        queue_probes.arrived(queue)
    cluster_health.report(settings().cluster_name)


def test_steps_are_grouped_by_what_they_wait_for(admin: Any) -> None:
    held, postponed, waiting, overdue = (admin.submit() for _ in range(4))
    soon, ago = now() + timedelta(minutes=5), now() - timedelta(minutes=5)
    age(held, lease_owner="stages1@here/1", lease_until=soon)
    age(postponed, not_before=soon, due_at=soon)
    age(waiting, pending_since=ago, due_at=soon)
    age(overdue, due_at=ago)
    found = numbers()
    assert {
        condition: found[f'pipeline_steps{{condition="{condition}",stage="translate"}}']
        for condition in status.StepCondition
    } == dict.fromkeys(status.StepCondition, 1.0)
    assert found['pipeline_steps{condition="held",stage="launch"}'] == 0
    assert found['pipeline_leases{worker="stages1@here"}'] == 1
    assert 300 <= found['pipeline_steps_waiting_seconds{stage="translate"}'] < 330
    assert 300 <= found["pipeline_steps_lag_seconds"] < 330


def test_ended_jobs_are_counted_once_a_minute_and_the_others_each_time(admin: Any) -> None:
    first = admin.submit()
    assert numbers()['pipeline_jobs{state="waiting"}'] == 1
    admin("PUT", f"/v1/job/stop/{first}", json={})
    admin.submit()
    found = numbers()
    assert (found['pipeline_jobs{state="waiting"}'], found['pipeline_jobs{state="stopped"}']) == (1, 0)
    assert found['pipeline_jobs_live{stage="translate",state="waiting"}'] == 1
    restart()
    assert numbers()['pipeline_jobs{state="stopped"}'] == 1


def test_calls_of_plugins_that_are_registered_are_counted_by_outcome(admin: Any) -> None:
    admin.payload("POST", "/v1/features", json=HOOK)
    admin.payload("PUT", "/v1/features/turn-on/bell")
    (key,) = status.read(dict).plugins
    for plugin in (key, "LifeHook.gone.nobody"):
        for _ in range(settings().breaker_failures):
            with pytest.raises(PluginUnavailable), client()._guard.entered(plugin, 30):
                raise PluginUnavailable("no route")
    found = numbers()
    assert found[f'pipeline_plugin_call_seconds_count{{mode="active",outcome="unavailable",plugin="{key}"}}'] == 5
    assert found[f'pipeline_plugin_circuit{{circuit="open",plugin="{key}"}}'] == 1
    assert not any("gone" in name for name in found)
    assert f"The plugin {key} is unavailable: no route" in admin.payload("GET", "/v1/status")["problems"]
    admin.payload("PUT", "/v1/features/turn-off/bell")
    assert "no route" not in admin("GET", "/v1/status").text


def test_totals_of_all_processes_are_answered_by_any_process(admin: Any) -> None:
    totals().observe(Metric.STAGE_SECONDS, ("gates", "advance"), 0.02)
    totals().observe(Metric.STAGE_SECONDS, ("gates", "advance"), 700)
    totals().observe(Metric.TICK_SECONDS, ("tick.steps",), 0.001)
    totals().count(Metric.TICK_ACTIONS, ("tick.steps",), 7)
    totals().count(Metric.DELIVERY_ATTEMPTS, ("delivered",))
    found = numbers()
    assert found['pipeline_stage_seconds_bucket{le="0.025",outcome="advance",stage="gates"}'] == 1
    assert found['pipeline_stage_seconds_bucket{le="+Inf",outcome="advance",stage="gates"}'] == 2
    assert found['pipeline_stage_seconds_sum{outcome="advance",stage="gates"}'] == pytest.approx(700.02)
    assert found['pipeline_tick_actions_total{tick="tick.steps"}'] == 7
    assert found['pipeline_delivery_attempts_total{status="delivered"}'] == 1


def test_deliveries_lag_is_the_age_of_what_was_not_acknowledged(admin: Any) -> None:
    job_id = admin.submit()
    with transaction() as session:
        event = session.scalars(select(Event.id).where(Event.job_id == job_id)).one()
        created = now() - timedelta(minutes=10)
        session.add(
            Delivery(
                id=new_delivery_id(created), event_id=event, subject_id=job_id, sequence=1, plugin_key="bell",
                created_at=created, next_at=now() + timedelta(minutes=1), give_up_at=now() + timedelta(days=1),
            )
        )  # fmt: skip
    found = numbers()
    assert found['pipeline_deliveries_waiting{plugin="bell"}'] == 1
    assert 600 <= found['pipeline_delivery_lag_seconds{plugin="bell"}'] < 630
    assert any("bell has not acknowledged 1 events" in one for one in admin.payload("GET", "/v1/status")["problems"])


def test_there_are_no_problems_while_all_heartbeats_are_recent(admin: Any) -> None:
    alive()
    admin.submit()
    answer = admin.payload("GET", "/v1/status")
    assert answer["problems"] == []
    assert answer["jobs"]["waiting"] == 1
    assert answer["queues"] == dict.fromkeys(answer["queues"], 0)
    assert [one["worker"] for one in answer["workers"]] == ["stages1@here"]


@pytest.mark.parametrize(
    ("name", "metric", "problem"),
    [
        (heartbeats.BEAT, "pipeline_beat_heartbeat_age_seconds", "Beat has sent no heartbeat for 90"),
        (
            f"{queue_probes.PREFIX}ticks",
            'pipeline_queue_probe_age_seconds{queue="ticks"}',
            "The last probe came through the queue ticks 90",
        ),
        (
            "worker/stages1@here",
            'pipeline_worker_heartbeat_age_seconds{worker="stages1@here"}',
            "The worker stages1@here",
        ),
    ],
)
def test_a_process_without_recent_heartbeat_is_a_problem(admin: Any, name: str, metric: str, problem: str) -> None:
    alive()
    silence(name, 900)
    assert 900 <= numbers()[metric] < 930
    (only,) = admin.payload("GET", "/v1/status")["problems"]
    assert only.startswith(problem)


@pytest.mark.parametrize(
    ("waiting", "why"),
    [(0, "nobody serves it."), (60, "nobody serves it."), (5000, "it is 5000 messages behind; its workers take less")],
)
def test_a_long_queue_is_not_one_that_nobody_serves(waiting: int, why: str) -> None:
    found = status.Status(
        **{name: {} for name in ("live", "ended", "deliveries", "runs", "failed_jobs", "circuits")},
        **dict.fromkeys(
            ("lag_seconds", "cleanups", "observation_age_seconds", "failing_schedules", "ended_age_seconds"), 0
        ),
        steps=(),
        plugins=(),
        cluster=cluster_health.ClusterHealth("here", report_age_seconds=1.0),
        heartbeat_ages={heartbeats.BEAT: 1.0, f"{heartbeats.WORKER}w@h": 1.0, f"{queue_probes.PREFIX}hooks": 900.0},
        queues={"hooks": waiting},
        up_seconds=1000.0,
    )
    (only,) = health_checks.problems(found, settings())
    assert only.alert == "PipelineQueueProbeOld"
    assert only.text.startswith(f"The last probe came through the queue hooks 900 s ago: {why}")


def test_a_worker_that_was_killed_is_a_problem_after_half_a_minute(admin: Any) -> None:
    alive()
    silence("worker/stages1@here", 35)
    (only,) = admin.payload("GET", "/v1/status")["problems"]
    assert only.startswith("The worker stages1@here has sent no heartbeat for 3")


def test_no_heartbeat_is_less_than_nothing_old(admin: Any) -> None:
    alive()
    silence("worker/stages1@here", -5)
    (worker,) = admin.payload("GET", "/v1/status")["workers"]
    assert worker["heartbeatAgeSeconds"] == 0


def test_the_status_says_how_long_ago_ended_jobs_were_counted(admin: Any) -> None:
    first = admin.payload("GET", "/v1/status")["endedAgeSeconds"]
    assert 0 <= first < admin.payload("GET", "/v1/status")["endedAgeSeconds"] < status.COUNTED_SECONDS


def test_a_plugin_that_failed_jobs_in_the_last_hour_is_a_problem(admin: Any) -> None:
    alive()
    for minutes, outcome, reason in (
        (90, "failed", "old"),
        (30, "failed", "status 500"),
        (20, "failed", "status 502"),
        (10, "rejected", "x"),
    ):
        job_id = admin.submit()
        with transaction() as session:
            session.add(
                TrailRow(
                    job_id=job_id, epoch=0, stage="gates", plugin_key="AccessGate.g.a", outcome=outcome, reason=reason,
                    started_at=now() - timedelta(minutes=minutes),
                )
            )  # fmt: skip
    answer = admin.payload("GET", "/v1/status")
    assert answer["failedJobs"] == [{"plugin": "AccessGate.g.a", "count": 2, "reason": "status 502"}]
    assert answer["problems"] == [
        "The plugin AccessGate.g.a failed 2 jobs in the last hour, the last one with: status 502"
    ]
    assert numbers()['pipeline_plugin_failed_jobs{plugin="AccessGate.g.a"}'] == 2


def test_a_process_that_never_had_a_heartbeat_is_a_problem(admin: Any) -> None:
    found = numbers()
    assert found["pipeline_beat_heartbeat_age_seconds"] == float("inf")
    assert found['pipeline_queue_probe_age_seconds{queue="stages.gates"}'] == float("inf")
    answer = admin.payload("GET", "/v1/status")
    assert (answer["beatHeartbeatAgeSeconds"], answer["queueProbes"]) == (None, [])
    assert len(answer["problems"]) == 4


def test_a_queue_that_was_never_served_is_a_problem(admin: Any) -> None:
    alive()
    with transaction() as session:
        session.execute(delete(Heartbeat).where(Heartbeat.name == f"{queue_probes.PREFIX}stages.gates"))
    (only,) = admin.payload("GET", "/v1/status")["problems"]
    assert only.startswith("No probe has come yet through these queues: stages.gates.")


@pytest.mark.parametrize(("seconds", "problems"), [(10.0, 0), (40.0, 1), (100.0, 4), (1000.0, 6)])
def test_what_has_had_no_time_since_the_start_is_no_problem(
    admin: Any, up_since: list[float], seconds: float, problems: int
) -> None:
    alive()
    for name in (heartbeats.BEAT, f"{queue_probes.PREFIX}ticks", f"{heartbeats.WORKER}stages1@here"):
        silence(name, 3600)
    age_report(3600)
    age(admin.submit(), pending_since=now() - timedelta(hours=1), due_at=now() + timedelta(minutes=1))
    launched = admin.submit()
    with transaction() as session:
        session.execute(
            update(Job).where(Job.id == launched).values(stage="cluster", last_observed_at=now() - timedelta(hours=1))
        )
    up_since[0] = seconds
    assert len(admin.payload("GET", "/v1/status")["problems"]) == problems


def test_a_service_that_has_just_started_has_had_no_time_for_heartbeats(admin: Any, up_since: list[float]) -> None:
    up_since[0] = 5.0
    assert admin.payload("GET", "/v1/status")["problems"] == []


def age_report(seconds: float) -> None:
    with transaction() as session:
        session.execute(update(ClusterHealthRow).values(reported_at=now() - timedelta(seconds=seconds)))


def test_a_cluster_that_cannot_be_used_is_a_problem_with_its_reason_and_since_when(admin: Any) -> None:
    alive()
    name = settings().cluster_name
    cluster_health.report(name, problem="the cluster cannot be reached: Connection refused")
    with transaction() as session:
        began = now() - timedelta(minutes=10)
        session.execute(update(ClusterHealthRow).values(problem_since=began))
    cluster_health.report(name, problem="the service lacks rights")
    answer = admin.payload("GET", "/v1/status")
    assert answer["problems"] == [f"The cluster {name} cannot be used since {rfc3339(began)}: the service lacks rights"]
    assert answer["cluster"] == {
        "name": name,
        "usable": False,
        "problem": "the service lacks rights",
        "since": rfc3339(began),
        "reportAgeSeconds": answer["cluster"]["reportAgeSeconds"],
        "lagSeconds": 0.0,
    }
    found = numbers()
    assert found[f'pipeline_cluster_up{{cluster="{name}"}}'] == 0
    assert 600 <= found[f'pipeline_cluster_problem_seconds{{cluster="{name}"}}'] < 630
    cluster_health.report(name)
    assert admin.payload("GET", "/v1/status")["problems"] == []
    found = numbers()
    assert found[f'pipeline_cluster_up{{cluster="{name}"}}'] == 1
    assert found[f'pipeline_cluster_problem_seconds{{cluster="{name}"}}'] == 0


def test_a_watcher_that_is_silent_or_behind_is_a_problem(admin: Any) -> None:
    assert numbers()["pipeline_watcher_report_age_seconds"] == float("inf")
    assert not any(name.startswith("pipeline_cluster_up") for name in numbers())
    alive()
    age_report(900)
    (problem,) = admin.payload("GET", "/v1/status")["problems"]
    assert problem.startswith(f"The watcher has not reported on the cluster {settings().cluster_name} for 90")
    assert 900 <= numbers()["pipeline_watcher_report_age_seconds"] < 930
    cluster_health.report(settings().cluster_name, lag_seconds=75.0)
    (problem,) = admin.payload("GET", "/v1/status")["problems"]
    assert problem.startswith("The watcher is 75 s behind")
    assert numbers()["pipeline_watcher_lag_seconds"] == 75


def test_errors_of_the_cluster_and_lists_of_the_watch_are_counted() -> None:
    totals().count(Metric.CLUSTER_ERRORS, ("403",))
    totals().count(Metric.WATCH_LISTS, ("vision",))
    found = numbers()
    assert found['pipeline_cluster_errors_total{error="403"}'] == 1
    assert found['pipeline_watch_lists_total{namespace="vision"}'] == 1


def test_an_unclaimed_step_and_a_stale_job_are_problems(admin: Any) -> None:
    alive()
    age(admin.submit(), pending_since=now() - timedelta(minutes=5), due_at=now() + timedelta(minutes=1))
    launched = admin.submit()
    with transaction() as session:
        session.execute(
            update(Job).where(Job.id == launched).values(stage="cluster", last_observed_at=now() - timedelta(hours=1))
        )
    assert numbers()["pipeline_jobs_observation_age_seconds"] >= 3600
    problems = admin.payload("GET", "/v1/status")["problems"]
    assert any("wait for a worker at the stage translate" in one for one in problems)
    assert any("Of a launched job" in one for one in problems)


def test_runs_are_counted_and_a_failing_schedule_is_a_problem(admin: Any) -> None:
    alive()
    begin(store(flow_entry("counted", {"a": []})))
    store(flow_entry("paused", {"a": []}), schedule_error="no", schedule_error_at=now(), paused=True)
    assert admin.payload("GET", "/v1/status")["problems"] == []
    store(flow_entry("faulty", {"a": []}), schedule_error="no", schedule_error_at=now())
    found = numbers()
    assert (found['pipeline_runs{state="waiting"}'], found['pipeline_runs{state="failed"}']) == (1, 0)
    assert found["pipeline_schedules_failing"] == 1
    answer = admin.payload("GET", "/v1/status")
    assert answer["problems"] == ["1 schedules can make no run: the list of flows shows which."]
    assert (answer["runs"]["waiting"], answer["failingSchedules"]) == (1, 1)
    assert {flow["name"]: flow["fault"] for flow in admin.payload("GET", "/v1/flows")}["faulty"] == "no"


def test_without_redis_the_numbers_of_the_database_are_answered(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_REDIS_URL", AWAY)
    restart()
    admin.submit()
    found = numbers()
    assert (found["pipeline_redis_up"], found["pipeline_database_up"]) == (0, 1)
    assert found['pipeline_jobs{state="waiting"}'] == 1
    answer = admin.payload("GET", "/v1/status")
    assert answer["queues"] is None
    assert answer["problems"][0].startswith("Redis is away")


def test_the_status_has_no_secrets_and_names_no_job(admin: Any, bearer: Callable[..., Any]) -> None:
    secret = {"authorization": "Bearer hushhush", "signingSecret": None}
    admin.payload("POST", "/v1/features", json={**HOOK, **secret})
    job_id = admin.submit()
    shown = bearer(Privilege.READ_JOB)("GET", "/v1/status").text
    assert "hushhush" not in shown
    assert job_id not in shown
