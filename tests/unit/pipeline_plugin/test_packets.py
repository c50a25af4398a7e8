"""Packets and events, as the service writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline_core.plugins import packet as service
from pipeline_plugin.answers import Factor
from pipeline_plugin.packets import BadPacket, Event, Packet, parsed

FACTORS = {"priority": [{"topic": "priority", "advice": 7, "reason": "paid"}, {"topic": "priority", "advice": None}]}
EVENT = {"id": "j1", "currentState": "running", "sequence": 2}


def test_a_packet_of_the_service_is_read() -> None:
    body = service.Packet(FACTORS, {"userID": "ünn", "jobID": "j1"}, {"kind": "TaskSet"}).encode()
    read = Packet.read(parsed(body), {"x-request-id": "r1", "idempotency-key": "k"})
    assert read.header["userID"] == "ünn"
    assert read.factors == {"priority": (Factor("priority", 7, "paid"), Factor("priority", None))}
    assert (read.advice("priority"), read.advice("other")) == ([7, None], [])
    assert (read.job_id, read.request_id, read.idempotency_key) == ("j1", "r1", "k")


def test_unknown_fields_are_ignored() -> None:
    assert Packet.read({"factors": {}, "header": {}, "job": {}, "more": 1}) == Packet({}, {}, {})
    assert Event.read({**EVENT, "more": 1}).raw["more"] == 1


@pytest.mark.parametrize(
    "document",
    [
        [],
        7,
        {},
        {"factors": [], "header": {}, "job": {}},
        {"factors": {}, "header": {}},
        {"factors": {"t": 7}, "header": {}, "job": {}},
        {"factors": {"t": [7]}, "header": {}, "job": {}},
    ],
)
def test_what_is_no_packet_is_refused(document: Any) -> None:
    with pytest.raises(BadPacket):
        Packet.read(document)


def test_an_event_is_read_and_says_whether_it_is_the_last() -> None:
    read = Event.read({**EVENT, "userID": "ann", "previousState": "waiting"}, {"idempotency-key": "k"})
    assert (read.id, read.current_state, read.sequence, read.user_id) == ("j1", "running", 2, "ann")
    assert (read.previous_state, read.idempotency_key, read.ended) == ("waiting", "k", False)
    assert Event.read({**EVENT, "currentState": "failed"}).ended
    assert Event.read({"id": "j1", "current_state": "running", "sequence": 1}).current_state == "running"


@pytest.mark.parametrize("change", [{"id": 7}, {"sequence": "2"}, {"sequence": True}, {"currentState": None}])
def test_what_is_no_event_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadPacket):
        Event.read({**EVENT, **change})
    with pytest.raises(BadPacket):
        Event.read([])


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadPacket):
        parsed(body)


def test_a_packet_file_is_json() -> None:
    assert parsed(json.dumps(EVENT).encode()) == EVENT
