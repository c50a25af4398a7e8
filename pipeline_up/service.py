"""`Service`: a process to supervise, with its readiness check and how to stop it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_LONGEST_SECONDS = 30.0


def never_stopping() -> bool:
    """The check of a service that a signal ends in any case."""
    return False


def ready_at_once(seconds: float) -> bool:
    """The readiness check of a service that is ready as soon as it runs."""
    return True


@dataclass(frozen=True, kw_only=True)
class Service:
    """One process, with its child processes.

    `env` is the whole environment; None means the supervisor's. `ready` is called with the seconds since the start of the
    process, again and again until it returns True.
    `stop_signal` goes to the process alone; after `stop_seconds` its whole group is killed. `stopping` says whether it takes no
    more requests, although it has not ended and nobody has asked it to.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] | None = None
    ready: Callable[[float], bool] = ready_at_once
    pass_fds: tuple[int, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    stopping: Callable[[], bool] = never_stopping


def backoff(failures: int) -> float:
    """Seconds to wait before a service that has failed `failures` times in a row is restarted."""
    return min(BACKOFF_FIRST_SECONDS * 2.0 ** (failures - 1), BACKOFF_LONGEST_SECONDS)
