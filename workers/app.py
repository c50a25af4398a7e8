"""The Celery app and its settings.

Redis can lose or duplicate a message whatever the settings are, so messages are wake-ups and PostgreSQL is the source of truth
(`pipeline_core.jobs.claims`). With late acknowledgement a worker takes no more messages than it runs tasks, and puts them back
when it is stopped; nothing relies on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery import Celery
from kombu import Producer, Queue
from kombu.utils.uuid import uuid

from pipeline_core.settings import Settings, settings
from pipeline_core.stages.names import STAGES
from workers import transport
from workers.heartbeats import WorkerHeartbeat
from workers.names import FLOWS, HOOKS, TICK_SECONDS, TICKS, queues, stage_queue, stage_task, task_modules


def configuration(settings: Settings) -> dict[str, Any]:
    """Celery's settings."""
    broker = transport.broker(settings.redis_url)
    return {
        **broker,
        "broker_transport_options": {
            **broker["broker_transport_options"],
            "global_keyprefix": settings.redis_prefix,
            "socket_keepalive": True,
            # Longer than any blocking read of the transport.
            "socket_timeout": 30,
            "socket_connect_timeout": 2,
            "health_check_interval": 25,
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # A Redis at its memory limit refuses commands; without this a worker would exit at the first refused one.
        "broker_channel_error_retry": True,
        "broker_pool_limit": 10,
        "task_queues": [Queue(name) for name in queues()],
        "task_create_missing_queues": False,
        "task_default_queue": TICKS,
        "task_routes": {
            **{stage_task(stage): {"queue": stage_queue(stage)} for stage in STAGES},
            "hook.*": {"queue": HOOKS},
            "flow.*": {"queue": FLOWS},
            "tick.*": {"queue": TICKS},
        },
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_ignore_result": True,
        "task_store_eager_result": False,
        "result_backend": None,
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        "task_soft_time_limit": settings.soft_limit_seconds,
        "task_time_limit": settings.hard_limit_seconds,
        "task_publish_retry_policy": {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.2},
        "worker_prefetch_multiplier": 1,
        "worker_eta_task_limit": 100,
        "worker_max_tasks_per_child": 2000,
        # A child that has grown to this is replaced after its task; an idle one has about 100 MB.
        "worker_max_memory_per_child": 500_000,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "worker_enable_remote_control": True,
        "worker_send_task_events": settings.task_events,
        "control_queue_ttl": 300,
        "control_queue_expires": 300,
        "enable_utc": True,
        "timezone": "UTC",
        "beat_schedule": {
            name: {"task": name, "schedule": seconds, "options": {"expires": max(seconds, 2.0)}}
            for name, seconds in TICK_SECONDS.items()
        },
        "beat_max_loop_interval": 1.0,
        # Of a worker, those of its queues (`workers.__main__`).
        "imports": task_modules(queues()),
    }


app = Celery("pipeline")
# When they are first needed, so that this module can be imported before the environment is known.
app.add_defaults(lambda: configuration(settings()))
app.steps["worker"].add(WorkerHeartbeat)


def send_task(
    producer: Producer,
    name: str,
    args: Sequence[object] = (),
    *,
    queue: str,
    chain: Sequence[object] | None = None,
    expires: float | None = None,
) -> None:
    """Send a task's message by this producer: once, and without declaring the queue, which Redis does not need.

    `app.send_task` sends the same message, and takes twice as long: it looks every option up in the task, the route and the
    settings.
    """
    amqp: Any = app.amqp
    message = amqp.as_task_v2(
        uuid(), name, args, chain=chain, expires=expires, ignore_result=True, argsrepr=repr(args), kwargsrepr="{}"
    )
    producer.publish(
        message.body,
        exchange="",
        routing_key=queue,
        serializer="json",
        headers=message.headers,
        **message.properties,
    )
