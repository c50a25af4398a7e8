"""The liveness file: a process touches it while it makes progress, and a probe looks at its age.

When the file is old, the probe runs `python -m workers.liveness`, which fails unless Redis is away: Celery's processes wait
for Redis, and to restart them would not bring it back.
"""

from __future__ import annotations

import sys
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from pipeline_core.settings import settings

TIMEOUT_SECONDS = 2.0


def touch() -> None:
    """Touch the file that `PIPELINE_ALIVE_FILE` names, if it names one."""
    if settings().alive_file:
        Path(settings().alive_file).touch()


def redis_answers() -> bool:
    """Whether Redis answers a ping."""
    try:
        with Redis.from_url(
            settings().redis_url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
        ) as redis:
            return bool(redis.ping())
    except (RedisError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit("the liveness file is old, and Redis answers" if redis_answers() else 0)
