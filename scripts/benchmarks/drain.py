"""Measures how long a worker takes to drain queues that were filled while it did not consume."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg2
from celery import Celery

from scripts.benchmarks.stand import Stand, wait_for
from workers.names import stage_queues

QUIET_POLLS = 5
"""A queue that is empty may be about to be filled by the task that runs: it must be so several times in a row."""


def jobs_per_second(stand: Stand, count: int, body: Mapping[str, Any], worker: str = "stages1") -> float:
    """So many jobs with this body, until all have succeeded."""
    from workers.app import app

    with closing(psycopg2.connect(stand.database_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True

        def ended() -> bool:
            cursor.execute("SELECT 1 FROM jobs WHERE finished_at IS NULL LIMIT 1")
            return cursor.fetchone() is None

        queues = stage_queues()
        seconds = drain(
            app, queues, lambda: submit_jobs(count, body), lambda: wait_for(ended, "the jobs to end"), worker
        )
        cursor.execute("SELECT count(*), min(reason) FROM jobs WHERE state <> 'succeeded'")
        wrong, reason = cursor.fetchone() or (0, "")
    if wrong:
        raise RuntimeError(f"{wrong} jobs did not succeed: {reason}")
    return count / seconds


def submit_jobs(count: int, body: Mapping[str, Any]) -> None:
    """Submit from this process, with the messages that go with it."""
    from api.schemas.jobs import Submit
    from pipeline_core.auth.actor import SYSTEM
    from pipeline_core.jobs.submission import submit
    from workers import publish

    publish.install()
    for _ in range(count):
        submit(Submit().read(body), SYSTEM)


def drain(
    app: Celery, queues: Sequence[str], fill: Callable[[], object], done: Callable[[], float], worker: str
) -> float:
    """Seconds from when the worker begins to listen until it is done. Others are left as they are."""
    name = address(worker)
    wait_for(lambda: app.control.ping(destination=name, timeout=1), "the worker to be up")
    for queue in queues:
        app.control.cancel_consumer(queue, destination=name, reply=True)
    fill()
    started = time.perf_counter()
    for queue in queues:
        app.control.add_consumer(queue, destination=name)
    return done() - started


def address(worker: str) -> list[str]:
    """The one worker of this name, as Celery's remote control wants it."""
    return [f"{worker}@{socket.gethostname()}"]


def quiet(empty: Callable[[], bool]) -> float:
    """Wait until it is empty for good; the time at which it became so."""
    since: list[float] = []

    def settled() -> bool:
        if not empty():
            since.clear()
        else:
            since.append(time.perf_counter())
        return len(since) >= QUIET_POLLS

    wait_for(settled, "the queue to be empty")
    return since[0]
