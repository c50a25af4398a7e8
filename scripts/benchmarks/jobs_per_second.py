"""Jobs through all stages, no plugin matching, launched on the null cluster; against a bare Celery chain of six tasks.

Each round fills the queues while the workers do not listen, and then takes the time until all is done. Huey's pipeline of
five tasks stands beside it.
"""

from __future__ import annotations

import sys

from redis import Redis

from pipeline_up.service import Service
from scripts.benchmarks.drain import drain, drain_jobs, jobs_per_second, quiet
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, Stand, standing, wait_for

NAME = "jobs_per_second"
GOAL = 4.0


def measure(scale: Scale) -> Result:
    """Drain the queues in turn."""
    with standing() as stand:
        stand.start_service(*stand.stage_workers, "housekeeping", "beat")
        stand.start(stand.bare_worker())
        jobs_per_second(stand, scale.jobs // 4, JOB)
        _bare(stand, scale.jobs // 4)
        pairs = [(drain_jobs(stand, scale.jobs, JOB), _bare(stand, scale.jobs)) for _ in range(scale.rounds)]
        rounds = [(drained.jobs_per_second, bare) for drained, bare in pairs]
        return Result.of_rounds(
            NAME,
            "jobs/s",
            rounds,
            goal=GOAL,
            samples=scale.jobs,
            huey=_huey(stand, scale.jobs),
            worker_processes=stand.plan.stage_workers,
            cpu_ms_per_job=pairs[-1][0].cpu_ms_per_job,
        )


def _bare(stand: Stand, count: int) -> float:
    from scripts.benchmarks.baselines import bare_celery

    redis = Redis.from_url(stand.environment["BENCH_BROKER_URL"])

    def fill() -> None:
        for _ in range(count):
            bare_celery.a_chain().apply_async()

    def done() -> float:
        return quiet(lambda: not redis.llen(bare_celery.QUEUE) and not redis.hlen("unacked"))

    return count / drain(bare_celery.app, [bare_celery.QUEUE], fill, done, "bare", from_first_message=True)


def _huey(stand: Stand, count: int) -> float:
    from scripts.benchmarks.baselines import bare_huey

    storage = bare_huey.huey.storage
    for _ in range(count):
        bare_huey.huey.enqueue(bare_huey.a_pipeline())
    consumer = [sys.executable, "-m", "huey.bin.huey_consumer", "scripts.benchmarks.baselines.bare_huey.huey"]
    stand.start(
        Service(
            name="huey",
            argv=[*consumer, "-k", "process", "-w", str(stand.plan.stage_workers), "-q"],
            env=stand.environment,
        )
    )
    # Its consumer cannot be made to wait, so the time runs from the first task that it takes.
    started = wait_for(lambda: storage.queue_size() < count, "Huey's consumer to begin", every=0.001)
    return count / (quiet(lambda: not storage.queue_size()) - started)
