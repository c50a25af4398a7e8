"""How many deliveries a subscriber is sent at a time, and where alerts go."""

from __future__ import annotations

import pytest

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
