"""Waiting in tests: for a condition, as long as it may still come true, however busy the machine is.

No test names a deadline. `wait_for` gives up after a quiet time, which is measured in the CPU time that a thread could
have had meanwhile: beside eight busy loops on two cores it lasts four times as long. Where progress can be seen (rows,
lines of a log, files), say how: then it is quiet only while nothing changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")
QUIET_SECONDS = 60.0
HANG_SECONDS = 600.0
"""For calls that only block (the end of a process, an answer over HTTP): what takes so long does not end at all."""

CPUS = len(os.sched_getaffinity(0))
# A wait is prolonged by at most this part of it, and a long one is not paid for with CPU time.
POLL_PART = 0.1
POLL_SECONDS = (0.005, 0.1)


def wait_for(
    condition: Callable[[], Value | None],
    what: str = "",
    *,
    progress: Callable[[], Any] | None = None,
    quiet: float = QUIET_SECONDS,
) -> Value:
    """The condition's value as soon as it is true.

    Fails after `quiet` seconds without progress, saying what was waited for (`what`) and what the condition said last.
    `progress` is asked once in each quiet time: whatever it returns has to differ from what it returned before.
    """
    before = progress() if progress else None
    waited, used, last = 0.0, 0.0, time.monotonic()
    while not (value := condition()):
        if used >= quiet:
            now = progress() if progress else None
            assert now != before, f"waited {waited:.0f} s for {what or 'it'}; last seen: {now or value!r}"
            before, used = now, 0.0
        time.sleep(min(max(POLL_PART * waited, POLL_SECONDS[0]), POLL_SECONDS[1]))
        passed = time.monotonic() - last
        waited, used, last = waited + passed, used + passed * _share_of_a_cpu(), last + passed
    return value


def _share_of_a_cpu() -> float:
    """The part of a CPU that one more runnable thread would get at the moment."""
    runnable = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    return min(1.0, CPUS / max(runnable, 1))
