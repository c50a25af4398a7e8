"""The canary: a message that beat sends again and again, and that does nothing but be noted when it has come through.

Its age tells what no process can tell of itself: that beat sends, Redis carries, a worker takes, and the database
writes. A worker can be connected to Redis and yet be given nothing.
"""

from __future__ import annotations

from pipeline_core import signs

NAME = "canary"


def arrived() -> None:
    """Note that the canary has come through. Raises Unavailable."""
    signs.give(NAME)
