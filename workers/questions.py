"""What shadows are to be asked, on its way to their lists in Redis (`pipeline_core.plugins.shadow_queue`).

It may be lost: while Redis is unavailable it is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from redis.exceptions import RedisError

from pipeline_core.common.redis import outage, quick_redis
from pipeline_core.plugins import shadow_queue
from pipeline_core.plugins.shadow_queue import Addressed
from pipeline_core.runtime import part
from pipeline_core.settings import settings
from workers.publisher import Publisher

log = structlog.get_logger(__name__)

GATHER_SECONDS = 0.25
"""How long questions are gathered before they are sent: until then, most of the jobs that they are about have been launched."""


def put(questions: Sequence[Addressed]) -> None:
    """Have these questions sent by a thread of this process. Waits for nothing, and never raises because of Redis."""
    if not outage().present:
        publisher().put(questions)


@part(close=Publisher.close)
def publisher() -> Publisher[Addressed]:
    """What sends this process's questions. What it has gathered is sent when the runtime is closed, and when the process ends."""
    return Publisher(_send, GATHER_SECONDS)


def _send(questions: Sequence[Addressed]) -> None:
    redis = quick_redis()
    if redis is None or outage().present:
        return
    try:
        shadow_queue.put(redis, settings().redis_prefix, questions)
    except RedisError as error:
        log.warning(f"{len(questions)} questions of shadows are not sent: Redis is unavailable", error=str(error))
