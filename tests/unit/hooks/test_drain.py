"""The drain's turns: what is claimed is sent, what is answered is written, and nothing is forgotten on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from pipeline_core.common.clock import now
from pipeline_core.database.models import DeliveryStatus
from pipeline_core.errors import Unavailable
from pipeline_core.hooks import drain as drain_module
from pipeline_core.hooks.claims import Attempted
from pipeline_core.hooks.drain import Drain
from pipeline_core.hooks.places import BATCH, Places, Subscriber
from pipeline_core.hooks.sending import NOT_SENT, ClaimedDelivery, DeliveryResult
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.types import PluginType
from tests.waiting import HANG_SECONDS, wait_for

OK = DeliveryResult(DeliveryStatus.DELIVERED, "OK")
REFUSED = DeliveryResult(DeliveryStatus.WAITING, "busy", 3600.0, counted=False, answered=None)


@dataclass
class Record:
    """What stands in for the database: deliveries that are due, by subscriber, and the results that were written."""

    due: dict[str, list[str]]
    written: list[tuple[str, DeliveryResult]] = field(default_factory=list)
    asked: list[dict[str, int]] = field(default_factory=list)
    unavailable: int = 0
    lease_seconds: float = 3600.0

    def write_and_claim(
        self, attempted: Sequence[Attempted], asked: Mapping[str, int], worker: str
    ) -> tuple[dict[str, DeliveryStatus], list[ClaimedDelivery]]:
        if self.unavailable:
            self.unavailable -= 1
            raise Unavailable("away")
        self.asked.append(dict(asked))
        self.written += [(each.delivery.delivery_id, each.result) for each in attempted]
        claimed = [self.claimed(key, name) for key, most in asked.items() for name in self.due.get(key, [])[:most]]
        for key, most in asked.items():
            self.due[key] = self.due.get(key, [])[most:]
        return {each.delivery.delivery_id: each.result.status for each in attempted}, claimed

    def claimed(self, key: str, name: str) -> ClaimedDelivery:
        return ClaimedDelivery(
            delivery_id=name,
            subject_id="j",
            state="running",
            subscriber=Subscriber(key, key, key),
            endpoint=Endpoint(key, PluginType.LIFE_HOOK, "http://127.0.0.1:9/", timeout_seconds=30),
            receiver=None,
            attempt=1,
            give_up_at=now() + timedelta(days=1),
            document={},
            request_id="",
            owner="w/1",
            lease_end=time.monotonic() + self.lease_seconds,
        )

    def results(self, result: DeliveryResult) -> set[str]:
        return {name for name, written in list(self.written) if written is result}


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, fresh_runtime: object) -> Record:
    made = Record({"a": [f"a{number}" for number in range(100)]})
    monkeypatch.setattr(drain_module, "write_and_claim", made.write_and_claim)
    monkeypatch.setattr(drain_module, "PAUSE_SECONDS", 0.01)
    return made


class Receiver:
    """Answers with `result`, once `answer` is set; after so many calls as `answers` it is set no more."""

    def __init__(self) -> None:
        self.answers = 0
        self.answer = threading.Event()
        self.answer.set()
        self.result: DeliveryResult | Exception = OK
        self.sent: list[str] = []

    def __call__(self, delivery: ClaimedDelivery) -> DeliveryResult:
        self.sent.append(delivery.delivery_id)
        if len(self.sent) == self.answers:
            self.answer.clear()
        self.answer.wait(HANG_SECONDS)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def drain(receiver: Receiver) -> Iterator[Drain]:
    made = Drain("w", Places(8, 4), receiver)
    yield made
    receiver.answer.set()
    made.stop()


def test_one_wake_up_drains_all_that_is_due_in_batches(drain: Drain, record: Record, receiver: Receiver) -> None:
    names = set(record.due["a"])
    drain.wake("a")
    wait_for(lambda: record.results(OK) == names)
    assert sorted(receiver.sent) == sorted(names), "each was sent once"
    assert {number for asked in record.asked for number in asked.values()} <= set(range(1, BATCH + 1))
    assert sum(bool(asked) for asked in record.asked) < len(names) / 4


def test_results_wait_for_a_database_that_is_away(drain: Drain, record: Record, receiver: Receiver) -> None:
    names = set(record.due["a"])
    record.unavailable = 3
    drain.wake("a")
    wait_for(lambda: len(receiver.sent) > 10)
    record.unavailable = 3
    wait_for(lambda: record.results(OK) == names)
    assert sorted(receiver.sent) == sorted(names)


def test_a_stop_waits_for_calls_and_leaves_to_others_what_was_not_started(
    drain: Drain, record: Record, receiver: Receiver
) -> None:
    receiver.answers = 10
    drain.wake("a")
    wait_for(lambda: len(receiver.sent) > 10 and drain._places.held == 4)
    stopping = threading.Thread(target=drain.stop)
    stopping.start()
    wait_for(lambda: drain._stopping)
    receiver.answer.set()
    stopping.join(HANG_SECONDS)
    assert record.results(OK) == set(receiver.sent), "all answers were written"
    claimed = {name for name, _ in record.written}
    assert claimed == record.results(OK) | record.results(NOT_SENT)
    assert claimed.isdisjoint(record.due["a"])
    drain.wake("a")
    assert len(record.due["a"]) + len(claimed) == 100, "nothing is claimed after a stop"


def test_a_subscriber_that_may_not_be_called_rests_and_others_do_not(
    drain: Drain, record: Record, receiver: Receiver
) -> None:
    record.due["b"] = ["b1", "b2"]
    receiver.result = REFUSED
    drain.wake("a")
    wait_for(lambda: record.results(REFUSED))
    receiver.result = OK
    drain.wake("b")
    drain.wake("a")
    wait_for(lambda: {"b1", "b2"} <= record.results(OK))
    assert len(record.results(REFUSED)) == 1
    assert len(record.due["a"]) == 99


def test_what_could_not_end_within_its_lease_is_left_to_another_claim(
    drain: Drain, record: Record, receiver: Receiver
) -> None:
    record.due["a"] = ["a1"]
    record.lease_seconds = 1
    drain.wake("a")
    wait_for(lambda: record.results(NOT_SENT) == {"a1"})
    assert receiver.sent == []


def test_an_attempt_that_fails_unexpectedly_frees_its_place(drain: Drain, record: Record, receiver: Receiver) -> None:
    record.due["a"] = ["a1"]
    receiver.result = RuntimeError("broken")
    drain.wake("a")
    wait_for(lambda: receiver.sent == ["a1"] and not drain._places.held)
    record.due["a"] = ["a2"]
    receiver.result = OK
    drain.wake("a")
    wait_for(lambda: record.results(OK) == {"a2"})
