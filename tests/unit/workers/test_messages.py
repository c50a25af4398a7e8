"""What anybody can put into a queue of Redis, and what a worker makes of it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.transport import redis

from workers import messages

GOOD = {
    "body": "W10=",
    "headers": {"task": "tick.steps", "id": "1"},
    "content-type": "application/json",
    "content-encoding": "utf-8",
    "properties": {
        "delivery_tag": "t",
        "body_encoding": "base64",
        "delivery_info": {"exchange": "", "routing_key": "ticks"},
    },
}


def changed(**properties: Any) -> dict[str, Any]:
    return {**GOOD, "properties": {**GOOD["properties"], **properties}}  # type: ignore[dict-item]


JUNK = [
    None,
    [],
    "text",
    5,
    {},
    {"properties": None},
    {**GOOD, "headers": []},
    {**GOOD, "headers": {"task": ["x"]}},
    {**GOOD, "body": 5},
    {**GOOD, "body": "x"},
    changed(delivery_tag=None),
    changed(delivery_info={}),
    changed(delivery_info="x"),
    changed(body_encoding="rot13"),
]


def test_a_message_of_celery_is_usable() -> None:
    assert messages.usable(GOOD)
    assert messages.usable(messages.discarded())


@pytest.mark.parametrize("junk", JUNK)
def test_anything_else_is_discarded_and_ends_no_worker(junk: Any) -> None:
    assert not messages.usable(junk)
    received: list[Any] = []
    transport = SimpleNamespace(_callbacks={"ticks": received.append})
    messages._deliver(transport, junk, "ticks")
    (message,) = received
    assert message["headers"] == {}
    messages._deliver(transport, GOOD, "ticks")
    assert received[1] is GOOD


@pytest.mark.parametrize("text", ["", "no JSON", "{", "[" * 100_000])
def test_what_is_no_json_is_nothing(text: str) -> None:
    assert messages.parse(text) is None
    assert messages.parse(json.dumps(GOOD)) == GOOD


def test_the_transport_of_this_process_reads_so() -> None:
    messages.install()
    assert redis.loads is messages.parse
    assert redis.Transport._deliver is messages._deliver
