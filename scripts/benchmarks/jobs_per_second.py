"""Jobs through all stages, no plugin matching, launched on the null cluster; against a bare Celery chain of six tasks.

Each round fills the queues while the workers do not listen, and then takes the time until all is done. Huey's pipeline of
five tasks stands beside it.
"""

from __future__ import annotations

import socket
import statistics
import sys
import time
from collections.abc import Callable

import psycopg2
from celery import Celery
from redis import Redis

from api.up.plan import STAGE_CONCURRENCY, STAGE_QUEUES
from api.up.service import Service
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, Stand, standing, wait_for

NAME = "jobs_per_second"
GOAL = 2.0
QUIET_POLLS = 5
"""A queue that is empty may be about to be filled by the task that runs: it must be so several times in a row."""


def measure(scale: Scale) -> Result:
    """Drain the queues in turn."""
    with standing() as stand:
        stand.start_service("stages1", "housekeeping", "beat")
        stand.start(stand.bare_worker())
        _service(stand, scale.jobs // 4)
        _bare(stand, scale.jobs // 4)
        rounds = [(_service(stand, scale.jobs), _bare(stand, scale.jobs)) for _ in range(scale.rounds)]
        value, baseline = (statistics.median(rates) for rates in zip(*rounds, strict=True))
        return Result(
            name=NAME,
            value=value,
            unit="jobs/s",
            baseline=baseline,
            goal=f"ratio at least {GOAL:g}",
            met=value / baseline >= GOAL,
            samples=scale.jobs * scale.rounds,
            more={"huey": _huey(stand, scale.jobs), "rounds": rounds, "worker_processes": STAGE_CONCURRENCY},
        )


def _service(stand: Stand, count: int) -> float:
    from pipeline_core.jobs.submission import Submission, submit
    from pipeline_core.tokens.actor import SYSTEM
    from workers import publish
    from workers.app import app

    publish.install()
    connection = psycopg2.connect(stand.database_url)
    connection.autocommit = True
    cursor = connection.cursor()

    def ended() -> bool:
        cursor.execute("SELECT 1 FROM jobs WHERE finished_at IS NULL LIMIT 1")
        return cursor.fetchone() is None

    def fill() -> None:
        for _ in range(count):
            submit(Submission.parse(JOB), SYSTEM)

    seconds = _drain(app, STAGE_QUEUES.split(","), fill, lambda: wait_for(ended, "the jobs to end"), "stages1")
    cursor.execute("SELECT count(*) FROM jobs WHERE state <> 'succeeded'")
    (wrong,) = cursor.fetchone() or (0,)
    connection.close()
    if wrong:
        raise RuntimeError(f"{wrong} jobs did not succeed")
    return count / seconds


def _bare(stand: Stand, count: int) -> float:
    from scripts.benchmarks.baselines import bare_celery

    redis = Redis.from_url(stand.environment["BENCH_BROKER_URL"])

    def fill() -> None:
        for _ in range(count):
            bare_celery.a_chain().apply_async()

    def done() -> float:
        return _quiet(lambda: not redis.llen(bare_celery.QUEUE) and not redis.hlen("unacked"))

    return count / _drain(bare_celery.app, [bare_celery.QUEUE], fill, done, "bare")


def _drain(app: Celery, queues: list[str], fill: Callable[[], None], done: Callable[[], float], worker: str) -> float:
    """Seconds from when the worker begins to listen until it is done. Others are left as they are."""
    name = [f"{worker}@{socket.gethostname()}"]
    wait_for(lambda: app.control.ping(destination=name, timeout=1), "the worker to be up")
    for queue in queues:
        app.control.cancel_consumer(queue, destination=name, reply=True)
    fill()
    started = time.perf_counter()
    for queue in queues:
        app.control.add_consumer(queue, destination=name)
    return done() - started


def _quiet(empty: Callable[[], bool]) -> float:
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


def _huey(stand: Stand, count: int) -> float:
    from scripts.benchmarks.baselines import bare_huey

    storage = bare_huey.huey.storage
    for _ in range(count):
        bare_huey.huey.enqueue(bare_huey.a_pipeline())
    consumer = [sys.executable, "-m", "huey.bin.huey_consumer", "scripts.benchmarks.baselines.bare_huey.huey"]
    stand.start(
        Service(
            name="huey",
            argv=[*consumer, "-k", "process", "-w", str(STAGE_CONCURRENCY), "-q"],
            env=stand.environment,
        )
    )
    # Its consumer cannot be told to wait, so the time runs from the first task that it takes.
    started = wait_for(lambda: storage.queue_size() < count, "Huey's consumer to begin", every=0.001)
    return count / (_quiet(lambda: not storage.queue_size()) - started)
