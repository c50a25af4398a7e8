"""The lengths of the queues in Redis."""

from __future__ import annotations

from collections.abc import Sequence

from celery import Celery

from pipeline_core.common.redis import patient_redis
from pipeline_core.settings import settings
from pipeline_core.stages.names import STAGES, Stage
from workers.names import queues, stage_queue


def lengths(names: Sequence[str] | None = None) -> dict[str, int]:
    """How many messages wait in each of these queues, or in each queue. Raises RedisError."""
    chosen = queues() if names is None else names
    pipe = patient_redis().pipeline(transaction=False)
    for name in chosen:
        pipe.llen(f"{settings().redis_prefix}{name}")
    return dict(zip(chosen, pipe.execute(), strict=True))


def served_stages(app: Celery) -> frozenset[Stage]:
    """The stages whose queues this worker consumes."""
    consumed = app.amqp.queues.consume_from
    return frozenset(stage for stage in STAGES if stage_queue(stage) in consumed)
