"""What is supervised: a command line and how to deal with it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_LONGEST_SECONDS = 30.0


def ready_at_once() -> bool:
    """For a service that counts as ready as soon as it runs."""
    return True


@dataclass(frozen=True, kw_only=True)
class Service:
    """One process, with the children that it may have itself.

    `env` is the whole environment; None means the supervisor's. `ready` is asked from its start until it says yes.
    `stop_signal` goes to the process alone; after `stop_seconds` its whole group is killed.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] | None = None
    ready: Callable[[], bool] = ready_at_once
    pass_fds: tuple[int, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0


def backoff(failures: int) -> float:
    """Seconds to wait before a service that failed so many times in a row is started again."""
    return min(BACKOFF_FIRST_SECONDS * 2.0 ** (failures - 1), BACKOFF_LONGEST_SECONDS)
