"""Which subscribers are woken, and where alerts are delivered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pipeline_core.database.wakeups import DeliveriesDue
from pipeline_core.hooks import deliveries
from pipeline_core.hooks.deliveries import ALERTS, alert_receiver
from pipeline_core.plugins.guard import Circuit
from pipeline_core.settings import Settings


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


def test_subscribers_are_woken_unless_their_circuit_is_open_and_a_silent_redis_holds_no_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_transactions: list[object] = []
    circuits = {"closed": Circuit.CLOSED, "open": Circuit.OPEN, "probed": Circuit.HALF_OPEN}

    @contextmanager
    def transaction() -> Iterator[Any]:
        open_transactions.append(object())
        yield None
        open_transactions.pop()

    def circuit(key: str) -> Circuit:
        assert not open_transactions, "the circuit is read from Redis, which may not answer"
        return circuits[key]

    monkeypatch.setattr(deliveries, "transaction", transaction)
    monkeypatch.setattr(deliveries, "_subscribers_with_due", lambda session: list(circuits))
    monkeypatch.setattr(deliveries, "circuit", circuit)
    assert deliveries.due() == [DeliveriesDue("closed"), DeliveriesDue("probed")]
