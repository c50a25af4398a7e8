"""Which subscribers are woken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pipeline_core.database.wakeups import DeliveriesDue
from pipeline_core.hooks import deliveries
from pipeline_core.plugins.guard import Circuit


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
