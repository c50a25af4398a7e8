"""What Celery's processes do when they start, and before each task. Loaded with the tasks (`imports` in `workers.app`)."""

from __future__ import annotations

import logging
from typing import Any

import structlog
from celery.signals import setup_logging, task_prerun, worker_init, worker_process_init, worker_process_shutdown

from pipeline_core.common import log
from pipeline_core.settings import settings
from workers import publish


@setup_logging.connect
def _configure_logging(**_: Any) -> None:
    log.configure(settings())
    # Celery logs two lines per task; the tasks log their results themselves.
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(name).setLevel(logging.WARNING)


@worker_init.connect
def _publish_beside_consuming(**_: Any) -> None:
    """For pools whose tasks run in the process that consumes (threads, solo)."""
    publish.install()


@worker_process_init.connect
def _publish_in_child(**_: Any) -> None:
    publish.install()


@worker_process_shutdown.connect
def _send_gathered(**_: Any) -> None:
    """A child process ends without what Python does at the end of others."""
    publish.publisher().close()


@task_prerun.connect
def _clear_log_context(**_: Any) -> None:
    structlog.contextvars.clear_contextvars()
