"""Celery's settings that prevent lost messages, duplicates and hangs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from kombu import Connection, Producer

from pipeline_core.settings import Settings
from pipeline_core.stages.names import STAGES, Stage
from workers.app import app, configuration, send_task
from workers.chain import stage_signature
from workers.names import FLOWS, HELP_SCHEDULES, QUEUE_PROBE, SHADOWS, TICK_SECONDS, queues, stage_queue, stage_task

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


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        (stage_task(Stage.LAUNCH), ("job", 1, "launch"), {"queue": stage_queue(Stage.LAUNCH)}),
        (
            stage_task(Stage.BIND),
            ("job", 1, "bind"),
            {"queue": stage_queue(Stage.BIND), "chain": [stage_signature("job", 1, Stage.LAUNCH).set(task_id="next")]},
        ),
        (HELP_SCHEDULES, (), {"queue": FLOWS, "expires": 5.0}),
    ],
)
def test_a_message_is_the_one_that_celery_sends(
    name: str, arguments: tuple[object, ...], options: Mapping[str, Any]
) -> None:
    with Connection("memory://") as connection:
        channel: Any = connection.channel()
        producer = Producer(channel, auto_declare=False)
        app.send_task(name, arguments, producer=producer, declare=(), retry=False, add_to_parent=False, **options)
        send_task(producer, name, arguments, **options)
        by_celery, by_us = (_comparable(channel._get(options["queue"]), options) for _ in range(2))
    assert by_us == by_celery


def _comparable(message: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The message without what each has of its own, IDs and moments, and without what is about a result."""
    headers, properties = message["headers"], message["properties"]
    assert headers.pop("id") == headers.pop("root_id") == properties.pop("correlation_id")
    assert (headers.pop("expires") is None) == ("expires" not in options)
    headers.pop("ignore_result")
    for name in ("delivery_tag", "reply_to", "expiration"):
        properties.pop(name, None)
    return message
