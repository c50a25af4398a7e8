"""A Celery application with tasks that do nothing, and with Celery's own settings."""

from __future__ import annotations

import os

from celery import Celery, chain
from celery.canvas import Signature

QUEUE = "bare"
TASKS = 6

app = Celery("bare", broker=os.environ["BENCH_BROKER_URL"], backend=os.environ["BENCH_BROKER_URL"])
app.conf.task_default_queue = QUEUE
app.conf.broker_connection_retry_on_startup = True


@app.task(ignore_result=True)
def nothing() -> None:
    """One of a chain."""


@app.task
def answer() -> None:
    """One whose end is waited for."""


def a_chain() -> Signature:
    """Six tasks, one after the other."""
    return chain(*(nothing.si() for _ in range(TASKS)))
