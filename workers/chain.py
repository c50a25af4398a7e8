"""The chain of a job's stage tasks: build, publish and shorten it, and park it while the job is suspended.

Messages carry `(job_id, epoch, stage)` and nothing else. A parked chain in Redis is a copy: the chain can always be built
again from the job's step in the database.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import structlog
from celery import signature
from celery.canvas import Signature
from kombu import Producer
from kombu.utils.uuid import uuid
from redis.exceptions import RedisError

from pipeline_core.common.redis import patient_redis
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage, after
from workers.app import app, send_task
from workers.names import stage_queue, stage_task

log = structlog.get_logger(__name__)


def stage_signature(job_id: str, epoch: int, stage: Stage) -> Signature:
    """The signature of one stage task. Immutable: the next task does not get its result as an argument."""
    return signature(
        stage_task(stage), args=(job_id, epoch, str(stage)), immutable=True, app=app, queue=stage_queue(stage)
    )


def send(job_id: str, epoch: int, stages: Sequence[Stage], producer: Producer) -> None:
    """Send a chain of these stages: the message of the first has the signatures of the others, the last first, as Celery's own
    chains do, which cannot be sent by a given producer. Raises what kombu raises when Redis is unavailable."""
    first, *others = stages
    following = [stage_signature(job_id, epoch, stage).set(task_id=uuid()) for stage in reversed(others)]
    send_task(producer, stage_task(first), (job_id, epoch, str(first)), queue=stage_queue(first), chain=following)


def from_stage(stage: Stage) -> tuple[Stage, ...]:
    """This stage and all that follow it."""
    return (stage, *after(stage))


def drop_until(remaining: list[dict[str, object]], stage: Stage) -> None:
    """Remove the stages before this one from `request.chain`, which holds the remaining tasks, the last first."""
    name = stage_task(stage)
    while remaining and remaining[-1]["task"] != name:
        remaining.pop()


def _key(job_id: str) -> str:
    return f"{settings().redis_prefix}park:{job_id}"


def park(job_id: str, epoch: int, stages: Iterable[Stage]) -> None:
    """Store the rest of a suspended job's chain in Redis. Does nothing while Redis is unavailable: the chain can be built from
    the step."""
    try:
        patient_redis().set(_key(job_id), json.dumps({"epoch": epoch, "stages": [str(stage) for stage in stages]}))
    except RedisError as error:
        log.warning("chain not parked: Redis is unavailable", error=str(error))


def take_parked(job_id: str, epoch: int) -> tuple[Stage, ...]:
    """Remove and return the stages parked under this epoch; none when Redis has lost them or holds another epoch's.

    Raises RedisError.
    """
    parked = patient_redis().getdel(_key(job_id))
    document = json.loads(parked) if parked else {}
    return tuple(Stage(name) for name in document["stages"]) if document.get("epoch") == epoch else ()


def delete_parked(job_ids: Sequence[str]) -> None:
    """Delete the parked chains of jobs that have ended."""
    try:
        patient_redis().delete(*map(_key, job_ids))
    except RedisError as error:
        log.warning("parked chain not deleted: Redis is unavailable", error=str(error))
