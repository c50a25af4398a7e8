"""An outage of Redis is logged once, and ends by itself."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from pipeline_core.common import redis
from pipeline_core.common.redis import PAUSE_SECONDS, Outage, answers, error_of, quick_redis
from pipeline_core.metrics.totals import Metric, Totals


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    moment = SimpleNamespace(now=100.0)
    monkeypatch.setattr(redis.time, "monotonic", lambda: moment.now)
    return moment


def test_an_outage_is_over_after_a_pause(moment: SimpleNamespace) -> None:
    outage = Outage()
    assert not outage.present
    outage.begin("nothing is counted", OSError("refused"))
    assert outage.present
    moment.now += PAUSE_SECONDS
    assert not outage.present


def test_users_of_a_shared_outage_do_not_call_redis_while_it_lasts(moment: SimpleNamespace) -> None:
    outage = Outage()
    outage.begin("wake-ups are not sent", OSError("refused"))
    untouched: object = object()
    Totals(untouched, prefix="t:", outage=outage).count(Metric.TICK_ACTIONS, ("tick.steps",))  # type: ignore[arg-type]


def test_an_unreachable_server_does_not_answer() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{held.getsockname()[1]}/0"
        assert not answers(url)
        assert "refused" in str(error_of(url))
    assert error_of("http://127.0.0.1") is not None


def test_without_a_redis_there_is_no_client(fresh_runtime: object) -> None:
    assert quick_redis() is None
