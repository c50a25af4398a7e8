"""The lists of what shadows are to be asked, in a real Redis."""

from __future__ import annotations

import pytest
from redis import Redis

from pipeline_core.common.redis import connect
from pipeline_core.metrics.totals import Metric, Totals
from pipeline_core.plugins import shadow_queue

QUESTION = ("j1", "gates", "AccessGate.a.b", "g")


@pytest.fixture
def redis(redis_url: str) -> Redis:
    client = connect(redis_url, 5)
    client.flushdb()
    return client


def test_questions_are_taken_in_their_order(redis: Redis) -> None:
    for number in range(3):
        shadow_queue.put(redis, "t:", "s", (f"j{number}", "gates", "", "g"))
    assert shadow_queue.take_any(redis, "t:", ["other", "s"], 1) == ("s", ("j0", "gates", "", "g"))
    assert shadow_queue.take(redis, "t:", "s") == ("j1", "gates", "", "g")
    assert shadow_queue.take(redis, "t:", "s") == ("j2", "gates", "", "g")
    assert shadow_queue.take(redis, "t:", "s") is None
    assert shadow_queue.take_any(redis, "t:", ["s"], 0.01) is None


def test_of_too_many_the_oldest_are_dropped_and_counted(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_queue, "MOST_WAITING", 2)
    for number in range(5):
        shadow_queue.put(redis, "t:", "s", (f"j{number}", "gates", "", "g"))
    shadow_queue.put(redis, "t:", "quiet", QUESTION)
    assert Totals(redis, prefix="t:").counts(Metric.SHADOWS_DROPPED) == {("s",): 3}
    assert [shadow_queue.take(redis, "t:", "s") for _ in range(3)] == [
        ("j3", "gates", "", "g"),
        ("j4", "gates", "", "g"),
        None,
    ]
    assert shadow_queue.take(redis, "t:", "quiet") == QUESTION


def test_what_somebody_else_has_put_there_is_no_question(redis: Redis) -> None:
    for junk in ("no json", "1", "[1]", '{"a": 1, "b": 2}'):
        redis.lpush(shadow_queue.key("t:", "s"), junk)
        assert shadow_queue.take_any(redis, "t:", ["s"], 1) is None
