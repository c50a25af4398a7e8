"""What anybody can put into a queue of Redis, and what a worker makes of it."""

from __future__ import annotations

import json
from queue import Empty
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection

from workers import transport

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
    assert transport.usable(GOOD)
    assert transport.usable(transport.discarded())


def delivered(transport_: Any, message: Any) -> Any:
    transport_._deliver(message, "ticks")
    return transport_.received.pop()


@pytest.fixture
def connected() -> Any:
    """The transport without a connection, with a consumer of one queue."""
    made = transport.Transport.__new__(transport.Transport)
    made.delivered, made.received = 0, []
    made._callbacks = {"ticks": made.received.append}
    return made


@pytest.mark.parametrize("junk", JUNK)
def test_anything_else_is_discarded_and_ends_no_worker(connected: Any, junk: Any) -> None:
    assert not transport.usable(junk)
    assert delivered(connected, junk)["headers"] == {}
    assert delivered(connected, GOOD) is GOOD


class Reply:
    """A client that has received this in answer to BRPOP."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def parse_response(self, *_: Any, **__: Any) -> tuple[bytes, bytes]:
        return b"ticks", self._text

    connection = None


def channel(connected: Any, text: bytes) -> Any:
    made = transport.Channel.__new__(transport.Channel)
    made.connection = connected
    made.__dict__["client"] = Reply(text)
    made._queue_cycle = SimpleNamespace(rotate=lambda queue: None)
    made._flush_brpop_reauth = lambda: None
    made.closed = True
    return made


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no JSON",
        b"{",
        b"[" * 100_000,
        b"\xff",
        b'{"__type__": "decimal", "__value__": "x"}',
        b'{"__type__": "datetime", "__value__": 5}',
    ],
)
def test_what_is_no_json_is_discarded(connected: Any, text: bytes) -> None:
    with pytest.raises(Empty):
        channel(connected, text)._brpop_read()
    assert connected.received == []


def test_a_message_is_read(connected: Any) -> None:
    assert channel(connected, json.dumps(GOOD).encode())._brpop_read()
    assert connected.received == [GOOD]


def test_a_failure_of_the_consumer_is_not_taken_for_junk(connected: Any) -> None:
    def fail(message: Any) -> None:
        raise ValueError("a defect")

    connected._callbacks = {"ticks": fail}
    with pytest.raises(ValueError, match="a defect"):
        channel(connected, json.dumps(GOOD).encode())._brpop_read()


def test_kombu_finds_the_transport_by_its_name_whatever_the_scheme_of_the_url() -> None:
    connection = Connection("redis://localhost/0", transport=transport.NAME)
    assert connection.transport_cls == transport.NAME
    assert connection.get_transport_cls() is transport.Transport
    assert transport.Transport.Channel is transport.Channel
    assert AttributeError in transport.Transport.connection_errors


def test_of_sentinels_the_url_names_one_and_the_options_all() -> None:
    broker = transport.broker("sentinel://:p%40ss@one:1,two/3?master=main&sentinel_password=s")
    options = broker["broker_transport_options"]
    assert broker["broker_url"] == "sentinel://:p%40ss@one:1/3"
    assert (options["master_name"], options["sentinels"]) == ("main", (("one", 1), ("two", 26379)))
    assert options["sentinel_kwargs"]["password"] == "s"
    with Connection(
        broker["broker_url"], transport=broker["broker_transport"], transport_options=options
    ) as connection:
        assert connection.get_transport_cls() is transport.SentinelTransport
        assert (connection.password, connection.virtual_host) == ("p@ss", "3")
