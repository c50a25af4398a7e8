"""What shadows are still to be asked: a list in Redis for each of them, whose oldest entries are dropped when it is full.

It may be lost: nothing of a job depends on what its shadows answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redis import Redis

from pipeline_core.metrics.totals import Metric, count_field
from pipeline_core.metrics.totals import key as totals_key

MOST_WAITING = 1000
"""How many questions may wait for one shadow."""
KEPT_SECONDS = 24 * 3600
"""After so long without a new question the list of a shadow is deleted."""

_PUT = """
for i = 2, #KEYS do
  local dropped = redis.call('LPUSH', KEYS[i], ARGV[2 * i - 1]) - tonumber(ARGV[1])
  redis.call('EXPIRE', KEYS[i], ARGV[2])
  if dropped > 0 then
    redis.call('LTRIM', KEYS[i], 0, ARGV[1] - 1)
    redis.call('HINCRBY', KEYS[1], ARGV[2 * i], dropped)
  end
end
"""

Question = tuple[str, str, str]
"""The job, the stage, and the key of the plugin that the shadow is to replace."""
Addressed = tuple[str, Question]
"""The key of a shadow, and what it is asked."""


def put(client: Redis, prefix: str, questions: Sequence[Addressed]) -> None:
    """Put questions into the lists of these shadows, in one round trip. Raises RedisError."""
    keys = [totals_key(prefix, Metric.SHADOWS_DROPPED)]
    arguments: list[str | int] = [MOST_WAITING, KEPT_SECONDS]
    for plugin_key, question in questions:
        keys.append(key(prefix, plugin_key))
        arguments += [json.dumps(question), count_field((plugin_key,))]
    client.eval(_PUT, len(keys), *keys, *arguments)


def wait(client: Redis, prefix: str, plugin_keys: Iterable[str], seconds: float) -> Addressed | None:
    """Take the oldest question of the first of these shadows that has one; waits for one so long. Raises RedisError."""
    by_list = {key(prefix, plugin_key): plugin_key for plugin_key in plugin_keys}
    taken: Any = client.brpop([*by_list], timeout=seconds)
    question = _question(taken[1]) if taken else None
    return (by_list[taken[0]], question) if question else None


def take(client: Redis, prefix: str, numbers: Mapping[str, int]) -> list[Addressed]:
    """Take the oldest questions of these shadows, so many of each at most, in one round trip. Raises RedisError."""
    pipe = client.pipeline(transaction=False)
    for plugin_key, number in numbers.items():
        pipe.rpop(key(prefix, plugin_key), number)
    taken = zip(numbers, pipe.execute(), strict=True)
    found = ((plugin_key, _question(text)) for plugin_key, texts in taken for text in texts or ())
    return [(plugin_key, question) for plugin_key, question in found if question]


def key(prefix: str, plugin_key: str) -> str:
    """The Redis key of a shadow's list."""
    return f"{prefix}shadows:{plugin_key}"


def _question(text: str) -> Question | None:
    """None for what no process of the service has put there."""
    try:
        job_id, stage, shadow_of = json.loads(text)
    except (ValueError, TypeError):
        return None
    return str(job_id), str(stage), str(shadow_of)
