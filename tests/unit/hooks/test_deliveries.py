"""How many deliveries a subscriber gets at a time, and where alerts are delivered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pipeline_core.hooks import deliveries
from pipeline_core.hooks.deliveries import ALERTS, SHARE, alert_receiver, share
from pipeline_core.plugins.guard import Circuit
from pipeline_core.settings import Settings


@pytest.mark.parametrize(("circuit", "most"), [(Circuit.CLOSED, SHARE), (Circuit.HALF_OPEN, 1), (Circuit.OPEN, 0)])
def test_a_subscriber_that_is_unavailable_is_probed_by_one_delivery_after_the_pause(
    circuit: Circuit, most: int
) -> None:
    assert share(circuit) == most


def test_alerts_have_a_receiver_only_where_one_is_set() -> None:
    assert alert_receiver(Settings()) is None
    receiver = alert_receiver(Settings(alert_url="https://alerts.example/", alert_authorization="Bearer x"))
    assert receiver is not None
    assert (receiver.key, receiver.address, receiver.authorization, receiver.max_attempts) == (
        ALERTS,
        "https://alerts.example/",
        "Bearer x",
        1,
    )


def test_a_silent_redis_holds_no_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    open_transactions: list[object] = []
    asked: list[str] = []

    @contextmanager
    def transaction() -> Iterator[Any]:
        open_transactions.append(object())
        yield None
        open_transactions.pop()

    def circuit(key: str) -> Circuit:
        assert not open_transactions, "the circuit is read from Redis, which may not answer"
        asked.append(key)
        return Circuit.OPEN

    monkeypatch.setattr(deliveries, "transaction", transaction)
    monkeypatch.setattr(deliveries, "_subscribers_with_due", lambda session: ["a", "b"])
    monkeypatch.setattr(deliveries, "circuit", circuit)
    assert deliveries.due() == []
    assert asked == ["a", "b"]
