"""The transport of messages on a real Redis: what is written there, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Consumer, Producer, Queue
from redis import Redis

from workers import transport

TAKEN = 2


@pytest.fixture
def connection(redis_url: str, prefix: str) -> Iterator[Connection]:
    with Connection(
        redis_url, transport=transport.NAME, transport_options={"global_keyprefix": prefix, "socket_timeout": 30}
    ) as connection:
        yield connection


def test_a_taken_message_is_written_nowhere_and_put_back_when_its_worker_is_stopped(
    connection: Connection, redis: Redis, prefix: str
) -> None:
    queue = Queue("work")
    producer = Producer(connection.channel())
    for number in range(4):
        producer.publish({"number": number}, routing_key="work", declare=[queue])
    before = set(redis.scan_iter(f"{prefix}*"))
    taken: list[Any] = []
    channel = connection.channel()
    consumer = Consumer(channel, [queue], callbacks=[lambda body, message: taken.append((body["number"], message))])
    consumer.qos(prefetch_count=TAKEN)
    consumer.consume()
    while len(taken) < TAKEN:
        connection.drain_events(timeout=5)
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.1)
    assert set(redis.scan_iter(f"{prefix}*")) == before, "no bookkeeping"
    assert redis.llen(f"{prefix}work") == 4 - TAKEN
    taken[0][1].ack()
    channel.close()
    assert redis.llen(f"{prefix}work") == 3, "the one that was not acknowledged is back"
    again: list[int] = []
    Consumer(connection.channel(), [queue], callbacks=[lambda body, message: again.append(body["number"])]).consume()
    while len(again) < 3:
        connection.drain_events(timeout=5)
    assert sorted(again) == [1, 2, 3]


def test_a_message_that_is_rejected_is_put_back(connection: Connection, redis: Redis, prefix: str) -> None:
    """As Celery does with the task of a child that died."""
    Producer(connection.channel()).publish({}, routing_key="work", declare=[Queue("work")])
    message = connection.channel().basic_get("work")
    assert redis.llen(f"{prefix}work") == 0
    message.reject(requeue=True)
    assert redis.llen(f"{prefix}work") == 1
