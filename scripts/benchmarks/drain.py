"""Measures how long a worker takes to drain queues that were filled while it did not consume."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg2
from celery import Celery

from scripts.benchmarks import cpu
from scripts.benchmarks.stand import Stand, wait_for
from workers.names import stage_queues

QUIET_POLLS = 5
"""A queue that is empty may be about to be filled by the task that runs: it must be so several times in a row."""


@dataclass(frozen=True, slots=True)
class Drained:
    """How many jobs ended in a second, and what CPU time, in milliseconds, each process took for one of them."""

    jobs_per_second: float
    cpu_ms_per_job: dict[str, float]


def jobs_per_second(stand: Stand, count: int, body: Mapping[str, Any], workers: Sequence[str] = ()) -> float:
    """So many jobs with this body, until all have succeeded; by all stage workers unless some are named."""
    return drain_jobs(stand, count, body, workers).jobs_per_second


def drain_jobs(stand: Stand, count: int, body: Mapping[str, Any], workers: Sequence[str] = ()) -> Drained:
    """The same, with the CPU time that they took."""
    from workers.app import app

    with closing(psycopg2.connect(stand.database_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True

        def ended() -> bool:
            cursor.execute("SELECT 1 FROM jobs WHERE finished_at IS NULL LIMIT 1")
            return cursor.fetchone() is None

        before: dict[str, float] = {}

        def fill() -> None:
            submit_jobs(count, body)
            before.update(cpu.seconds())

        seconds = drain(
            app,
            stage_queues(),
            fill,
            lambda: wait_for(ended, "the jobs to end"),
            *(workers or stand.stage_workers),
            from_first_message=True,
        )
        spent = cpu.milliseconds_each(before, cpu.seconds(), count)
        cursor.execute("SELECT count(*), min(reason) FROM jobs WHERE state <> 'succeeded'")
        wrong, reason = cursor.fetchone() or (0, "")
    if wrong:
        raise RuntimeError(f"{wrong} jobs did not succeed: {reason}")
    return Drained(count / seconds, spent)


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
    app: Celery,
    queues: Sequence[str],
    fill: Callable[[], object],
    done: Callable[[], float],
    *workers: str,
    from_first_message: bool = False,
) -> float:
    """Seconds from when these workers are asked to listen, or from the first message that they take, until it is done. Others are
    left as they are.

    A worker hears of a new queue only when it asks the broker the next time, up to a second later.
    """
    name = [f"{worker}@{socket.gethostname()}" for worker in workers]
    wait_for(lambda: len(app.control.ping(destination=name, timeout=1) or ()) == len(name), "the workers to be up")
    for queue in queues:
        app.control.cancel_consumer(queue, destination=name, reply=True)
    fill()
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel

        def messages() -> int:
            return sum(channel.client.llen(queue) for queue in queues)

        filled, started = messages(), time.perf_counter()
        for queue in queues:
            app.control.add_consumer(queue, destination=name)
        if from_first_message:
            started = wait_for(lambda: messages() < filled, "the workers to begin", every=0.001)
    return done() - started


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
