"""How a plugin fares, for people to see."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pipeline_core.common.clock import rfc3339
from pipeline_core.plugins.guard import Circuit, Guard, Health
from pipeline_core.runtime import part
from pipeline_core.settings import settings


def health(key: str) -> dict[str, Any] | None:
    """The circuit breaker's state, the last outcomes and the latency of the plugin `key`; None when Redis is away."""
    found = _guard().health(key)
    return view(found) if found else None


def circuit(key: str) -> Circuit:
    """Whether the plugin `key` may be called; closed when Redis cannot say."""
    found = _guard().health(key)
    return found.circuit if found else Circuit.CLOSED


def view(found: Health) -> dict[str, Any]:
    """Times in milliseconds, the latest outcome first."""
    latency = found.latency_seconds
    return {
        "circuit": found.circuit,
        "callsUnderWay": found.calls,
        "failuresInARow": found.failures,
        "cause": found.cause,
        "latencyMs": None if latency is None else round(latency * 1000),
        "recent": [
            {
                "at": rfc3339(datetime.fromtimestamp(record.at, UTC)),
                "outcome": record.outcome,
                "durationMs": round(record.seconds * 1000),
            }
            for record in found.recent
        ],
    }


@part
def _guard() -> Guard:
    return Guard.configured(settings())
