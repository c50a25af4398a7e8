"""The lists of what shadows are to be asked, in a real Redis."""

from __future__ import annotations

import pytest
from redis import Redis

from pipeline_core.common.redis import connect
from pipeline_core.metrics.totals import Metric, Totals
from pipeline_core.plugins import shadow_queue

QUESTION = ("j1", "gates", "AccessGate.a.b")


@pytest.fixture
def redis(redis_url: str) -> Redis:
    client = connect(redis_url, 5)
    client.flushdb()
    return client


def question(number: int) -> shadow_queue.Question:
    return f"j{number}", "gates", ""


def test_questions_are_taken_in_their_order(redis: Redis) -> None:
    shadow_queue.put(redis, "t:", [("s", question(number)) for number in range(4)])
    assert shadow_queue.wait(redis, "t:", ["other", "s"], 1) == ("s", question(0))
    assert shadow_queue.take(redis, "t:", {"other": 9, "s": 2}) == [("s", question(1)), ("s", question(2))]
    assert shadow_queue.take(redis, "t:", {"s": 9}) == [("s", question(3))]
    assert shadow_queue.take(redis, "t:", {"s": 9}) == []
    assert shadow_queue.wait(redis, "t:", ["s"], 0.01) is None


def test_of_too_many_the_oldest_are_dropped_and_counted(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_queue, "MOST_WAITING", 2)
    for number in range(5):
        shadow_queue.put(redis, "t:", [("quiet", QUESTION)] * (number == 2) + [("s", question(number))])
    assert Totals(redis, prefix="t:").counts(Metric.SHADOWS_DROPPED) == {("s",): 3}
    assert shadow_queue.take(redis, "t:", {"s": 9, "quiet": 9}) == [
        ("s", question(3)),
        ("s", question(4)),
        ("quiet", QUESTION),
    ]


def test_what_somebody_else_has_put_there_is_no_question(redis: Redis) -> None:
    for junk in ("no json", "1", "[1]", '{"a": 1, "b": 2}'):
        redis.lpush(shadow_queue.key("t:", "s"), junk, junk)
        assert shadow_queue.wait(redis, "t:", ["s"], 1) is None
        assert shadow_queue.take(redis, "t:", {"s": 9}) == []
