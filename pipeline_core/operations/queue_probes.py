"""Queue probes: messages that only prove that a queue is served. A tick sends one through every queue now and then.

The age of the last probe shows that the whole path works: beat sends, Redis transports, a worker takes messages from the
queue, and the database can be written. A heartbeat does not: a worker can be connected to Redis and get no messages.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_core.operations import heartbeats

PREFIX = "queue-probe/"
"""Prefix of a probe's name in the table of heartbeats; its queue follows."""


def arrived(queue: str) -> None:
    """Record that a probe has arrived through this queue. Raises Unavailable."""
    heartbeats.beat(PREFIX + queue)


def ages(heartbeat_ages: Mapping[str, float]) -> dict[str, float]:
    """Seconds since the last probe arrived, by queue; without queues through which none has arrived yet."""
    return {name.removeprefix(PREFIX): age for name, age in heartbeat_ages.items() if name.startswith(PREFIX)}
