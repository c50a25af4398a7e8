"""The Celery app: queues, and the settings that make a lost or doubled message harmless.

Redis may lose a message whatever the settings, so messages are wake-up calls and PostgreSQL is the record
(`pipeline_core.jobs.cursor`). Late acknowledgement narrows the gap; nothing here relies on it.
"""

from __future__ import annotations

import logging
from typing import Any

import structlog
from celery import Celery
from celery.signals import setup_logging, task_prerun, worker_init, worker_process_init
from kombu import Queue
from kombu.transport.redis import Transport

from pipeline_core.common import log
from pipeline_core.settings import Settings, settings
from pipeline_core.stages.order import STAGES, Stage
from workers.heartbeats import Presence

HOOKS = "hooks"
FLOWS = "flows"
TICKS = "ticks"
CANARY = "canary"
TICK_SECONDS = {
    "tick.steps": 1.0,
    "tick.deliveries": 1.0,
    "tick.suspensions": 1.0,
    "tick.retries": 1.0,
    "tick.flows": 1.0,
    "tick.admissions": 10.0,
    "tick.schedule": 1.0,
    "tick.backfills": 1.0,
    "tick.give-up": 10.0,
    "tick.reconcile": 5.0,
    "tick.cleanup": 5.0,
    "tick.canaries": 15.0,
    "tick.retention": 10.0,
}
"""How often beat sends each tick."""


def stage_queue(stage: Stage) -> str:
    """The queue of a stage's tasks, so that each stage can be scaled by itself."""
    return f"stages.{stage}"


def stage_task(stage: Stage) -> str:
    """The name of a stage's task."""
    return f"stage.{stage}"


def queues() -> list[str]:
    """The names of all queues."""
    return [*(stage_queue(stage) for stage in STAGES), HOOKS, FLOWS, TICKS]


def configuration(settings: Settings) -> dict[str, Any]:
    """Celery's settings."""
    return {
        "broker_url": settings.redis_url,
        "broker_transport_options": {
            "visibility_timeout": settings.visibility_timeout_seconds,
            "global_keyprefix": settings.redis_prefix,
            "socket_keepalive": True,
            # Longer than any blocking read of the transport, shorter than a person's patience.
            "socket_timeout": 30,
            "socket_connect_timeout": 2,
            "health_check_interval": 25,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # A Redis at its memory limit refuses commands; without this a worker would end at the first refusal.
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
        "imports": [f"workers.tasks.{kind}" for kind in ("stages", "hooks", "flows", "ticks", "canaries")],
    }


# Where Redis goes away again while a lost connection is being closed, the transport stumbles over its own closed client,
# and the worker would end. To connect anew is right there, as it is for the KeyError that is counted among these already.
Transport.connection_errors = (*Transport.connection_errors, AttributeError)

app = Celery("pipeline")
app.config_from_object(configuration(settings()))
app.steps["worker"].add(Presence)


@setup_logging.connect
def _configure_logging(**_: Any) -> None:
    log.configure(settings())
    # Celery's own two lines for each task; what a task has done, it says itself.
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(name).setLevel(logging.WARNING)


@worker_init.connect
def _publish_beside_consuming(**_: Any) -> None:
    """For the pools whose tasks run in the process that consumes."""
    from workers import publish

    publish.install(consumes=True)


@worker_process_init.connect
def _publish(**_: Any) -> None:
    from workers import publish

    publish.install()


@task_prerun.connect
def _forget_the_last_task(**_: Any) -> None:
    structlog.contextvars.clear_contextvars()
