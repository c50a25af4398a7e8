from __future__ import annotations

from unittest.mock import MagicMock

from redis import Redis

from pipeline_core.common.redis import Outage
from pipeline_core.plugins.guard import AttemptOutcome, Circuit, Guard, PluginHealth, RecentAttempt, health_json


def test_health_is_shown_in_milliseconds_and_rfc_3339() -> None:
    recent = (
        RecentAttempt(1769860800.5, AttemptOutcome.UNAVAILABLE, 2.0),
        RecentAttempt(1769860790.0, AttemptOutcome.ANSWERED, 0.0125),
    )
    assert health_json(PluginHealth(Circuit.OPEN, 3, 5, "no connection", recent)) == {
        "circuit": "open",
        "callsUnderWay": 3,
        "failuresInARow": 5,
        "cause": "no connection",
        "latencyMs": 12,
        "recent": [
            {"at": "2026-01-31T12:00:00.500000Z", "outcome": "unavailable", "durationMs": 2000},
            {"at": "2026-01-31T11:59:50Z", "outcome": "answered", "durationMs": 12},
        ],
    }


def test_a_plugin_that_was_never_called_has_no_latency() -> None:
    assert health_json(PluginHealth(Circuit.CLOSED, 0, 0, "", ()))["latencyMs"] is None


def test_health_asks_no_redis_that_failed_a_moment_ago() -> None:
    redis, outage = MagicMock(spec=Redis), Outage()
    guard = Guard(redis, prefix="", concurrency=1, failures=1, open_seconds=1, outage=outage)
    outage.begin("nothing is counted", OSError())
    assert guard.health("a") is None
    redis.register_script.return_value.assert_not_called()
