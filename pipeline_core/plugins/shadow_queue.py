"""What shadows are still to be asked: a list in Redis for each of them, whose oldest entries are dropped when it is full.

It may be lost: nothing of a job depends on what its shadows answer.
"""

from __future__ import annotations

import json
from typing import Any

from redis import Redis

from pipeline_core.metrics.totals import Metric, count_field
from pipeline_core.metrics.totals import key as totals_key

MOST_WAITING = 1000
"""How many questions may wait for one shadow."""
KEPT_SECONDS = 24 * 3600
"""After so long without a new question the list of a shadow is deleted."""

_PUT = """
local dropped = redis.call('LPUSH', KEYS[1], ARGV[1]) - tonumber(ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
if dropped > 0 then
  redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
  redis.call('HINCRBY', KEYS[2], ARGV[4], dropped)
end
"""

Question = tuple[str, str, str, str]
"""The job, the stage, the key of the plugin that the shadow is to replace, and an ID of the questions that were put together:
what they are about may be read once for all of them."""


def put(client: Any, prefix: str, plugin_key: str, question: Question) -> None:
    """Put a question into a shadow's list, by a client or a pipeline of it. Raises RedisError."""
    keys = [key(prefix, plugin_key), totals_key(prefix, Metric.SHADOWS_DROPPED)]
    client.eval(_PUT, 2, *keys, json.dumps(question), MOST_WAITING, KEPT_SECONDS, count_field((plugin_key,)))


def take_any(client: Redis, prefix: str, plugin_keys: list[str], seconds: float) -> tuple[str, Question] | None:
    """The oldest question of the first of these shadows that has one; waits for one so long. Raises RedisError."""
    by_list = {key(prefix, plugin_key): plugin_key for plugin_key in plugin_keys}
    taken: Any = client.brpop([*by_list], timeout=seconds)
    question = _question(taken[1]) if taken else None
    return (by_list[taken[0]], question) if question else None


def take(client: Redis, prefix: str, plugin_key: str) -> Question | None:
    """The oldest question of this shadow, if there is one. Raises RedisError."""
    taken: Any = client.rpop(key(prefix, plugin_key))
    return _question(taken) if taken else None


def key(prefix: str, plugin_key: str) -> str:
    """The Redis key of a shadow's list."""
    return f"{prefix}shadows:{plugin_key}"


def _question(text: str) -> Question | None:
    """None for what no process of the service has put there."""
    try:
        job_id, stage, shadow_of, group = json.loads(text)
    except (ValueError, TypeError):
        return None
    return str(job_id), str(stage), str(shadow_of), str(group)
