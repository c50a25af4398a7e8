"""Canaries: messages that do nothing but arrive. Beat has one sent through every queue now and then.

The age of the last one tells what no process can tell of itself: that beat sends, Redis carries, a worker takes, and the
database writes. A worker can be connected to Redis and yet be given nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_core.operations import heartbeats

PREFIX = "canary/"
"""What the name of a canary's sign begins with; its queue follows."""


def arrived(queue: str) -> None:
    """Note that a canary has come through this queue. Raises Unavailable."""
    heartbeats.give(PREFIX + queue)


def ages(silent: Mapping[str, float]) -> dict[str, float]:
    """Seconds since the last canary arrived, by queue, of all signs; without the queues that never saw one."""
    return {name.removeprefix(PREFIX): age for name, age in silent.items() if name.startswith(PREFIX)}
