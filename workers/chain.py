"""The chain of a job's stage tasks: built, shortened, parked while the job is suspended, and taken up again.

Messages carry `(job_id, epoch, stage)` and nothing else. What is parked in Redis is the fast copy; the cursor in the
database is enough to build the chain anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache

import structlog
from celery import chain, signature
from celery.canvas import Signature
from redis import Redis
from redis.exceptions import RedisError

from pipeline_core.settings import settings
from pipeline_core.stages.order import Stage, after
from workers.app import app, stage_queue, stage_task

log = structlog.get_logger(__name__)


def step(job_id: str, epoch: int, stage: Stage) -> Signature:
    """The signature of one stage task. Immutable: a task's result is nothing to the next."""
    return signature(
        stage_task(stage), args=(job_id, epoch, str(stage)), immutable=True, app=app, queue=stage_queue(stage)
    )


def publish(job_id: str, epoch: int, stages: Sequence[Stage]) -> None:
    """Send a chain of these stages. Raises what kombu raises when Redis is away."""
    chain(*(step(job_id, epoch, stage) for stage in stages), app=app).apply_async()


def from_stage(stage: Stage) -> tuple[Stage, ...]:
    """The whole rest of a chain, beginning with this stage."""
    return (stage, *after(stage))


def drop_until(remaining: list[dict[str, object]], stage: Stage) -> None:
    """Take the stages before this one out of `request.chain`, which holds what remains, the last first."""
    name = stage_task(stage)
    while remaining and remaining[-1]["task"] != name:
        remaining.pop()


@cache
def redis() -> Redis:
    """This process's connection for parked chains; it gives up quickly."""
    return Redis.from_url(
        settings().redis_url,
        socket_timeout=2,
        socket_connect_timeout=1,
        health_check_interval=25,
        decode_responses=True,
    )


def _key(job_id: str) -> str:
    return f"{settings().redis_prefix}park:{job_id}"


def park(job_id: str, epoch: int, stages: Iterable[Stage]) -> None:
    """Keep what remains of a suspended job's chain. Without Redis nothing is kept, and nothing is lost."""
    try:
        redis().set(_key(job_id), json.dumps({"epoch": epoch, "stages": [str(stage) for stage in stages]}))
    except RedisError as error:
        log.warning("chain not parked: Redis is away", error=str(error))


def take_parked(job_id: str, epoch: int) -> tuple[Stage, ...]:
    """The stages parked under this epoch, taken away; none if Redis has lost them or keeps those of another epoch."""
    parked = redis().getdel(_key(job_id))
    document = json.loads(parked) if parked else {}
    return tuple(Stage(name) for name in document["stages"]) if document.get("epoch") == epoch else ()


def forget(job_ids: Sequence[str]) -> None:
    """Take away what was parked of jobs that have ended."""
    try:
        redis().delete(*map(_key, job_ids))
    except RedisError as error:
        log.warning("parked chain not deleted: Redis is away", error=str(error))
