"""A file whose age tells a probe that this process goes on. `python -m workers.alive` is asked when it is old: it fails
unless Redis is away, which Celery's processes wait for, and which starting them anew would not bring back.
"""

from __future__ import annotations

import sys
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from pipeline_core.settings import settings

TIMEOUT_SECONDS = 2.0


def show() -> None:
    """Touch the file of `PIPELINE_ALIVE_FILE`, if there is to be one."""
    if settings().alive_file:
        Path(settings().alive_file).touch()


def redis_answers() -> bool:
    """Whether there is a Redis that takes requests."""
    try:
        with Redis.from_url(
            settings().redis_url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
        ) as redis:
            return bool(redis.ping())
    except (RedisError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit("no sign of life, and Redis is there" if redis_answers() else 0)
