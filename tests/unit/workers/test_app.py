"""Celery's settings that prevent lost messages, duplicates and hangs."""

from __future__ import annotations

import pytest

from pipeline_core.settings import Settings
from pipeline_core.stages.names import STAGES
from workers.app import configuration
from workers.names import QUEUE_PROBE, SHADOWS, TICK_SECONDS, queues, stage_task

CONFIGURATION = configuration(Settings(redis_url="redis://localhost/0"))
TRANSPORT = CONFIGURATION["broker_transport_options"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # A worker takes no more messages than it runs tasks, and puts back what a child that died has not finished.
        ("task_acks_late", True),
        ("task_reject_on_worker_lost", True),
        # Nothing is written for a message that a worker has taken.
        ("broker_transport", "workers.transport:Transport"),
        # Prefetched messages would be lost with their worker, and late for all others.
        ("worker_prefetch_multiplier", 1),
        ("worker_eta_task_limit", 100),
        # Results fill Redis, and nobody reads them.
        ("task_ignore_result", True),
        ("result_backend", None),
        # With pickle, anyone who can write to the broker could execute code.
        ("task_serializer", "json"),
        ("accept_content", ["json"]),
        ("result_accept_content", ["json"]),
        # Wait for a Redis that is unavailable, not started yet, or refuses commands.
        ("broker_connection_retry_on_startup", True),
        ("broker_connection_max_retries", None),
        ("broker_channel_error_retry", True),
        ("worker_cancel_long_running_tasks_on_connection_loss", True),
        # Local time and daylight saving time do not matter.
        ("enable_utc", True),
        ("timezone", "UTC"),
    ],
)
def test_celery_has_these_settings(name: str, value: object) -> None:
    assert CONFIGURATION[name] == value


def test_every_limit_is_longer_than_the_one_inside_it() -> None:
    settings = Settings()
    soft, hard = CONFIGURATION["task_soft_time_limit"], CONFIGURATION["task_time_limit"]
    assert settings.stage_budget_seconds < soft < hard


def test_no_call_of_redis_waits_forever() -> None:
    assert {"socket_timeout", "socket_connect_timeout", "socket_keepalive", "health_check_interval"} <= set(TRANSPORT)


def test_messages_of_ticks_expire_and_do_not_pile_up_without_a_worker() -> None:
    for name, entry in CONFIGURATION["beat_schedule"].items():
        assert isinstance(entry["schedule"], float), name
        assert entry["options"]["expires"] <= max(TICK_SECONDS[name], 2.0), name


def test_stages_hooks_flows_and_ticks_have_queues_of_their_own() -> None:
    routes = CONFIGURATION["task_routes"]
    used = [routes[stage_task(stage)]["queue"] for stage in STAGES] + [
        routes["hook.*"]["queue"],
        routes["flow.*"]["queue"],
        routes["tick.*"]["queue"],
    ]
    assert [*used, SHADOWS] == queues(), "shadows are asked without messages"
    assert len(set(used)) == len(used)
    assert QUEUE_PROBE not in routes


def test_a_worker_that_leaks_is_replaced() -> None:
    given = configuration(Settings())
    idle_kilobytes = 110_000
    assert idle_kilobytes * 2 < given["worker_max_memory_per_child"] < 1_000_000
    assert 0 < given["worker_max_tasks_per_child"] <= 10_000
