"""Plugin calls without the service, from as many processes as the service uses for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def rounds_per_second(urls: Sequence[str], packet: Mapping[str, Any], count: int, processes: int) -> float:
    """How often a second all of these URLs are called, `count` times in all, by so many processes at once."""
    each = max(count // processes, 1)
    argv = [sys.executable, "-m", "scripts.benchmarks.baselines.bare_calls", str(each), *urls]
    callers = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    for caller in callers:
        if not caller.stdout or caller.stdout.readline() != "ready\n":
            raise RuntimeError("a caller did not start")
    for caller in callers:
        assert caller.stdin
        caller.stdin.write(f"{json.dumps(packet)}\n")
        caller.stdin.flush()
    # All begin at once, so that the slowest has taken as long as all together.
    seconds = max(float(caller.communicate()[0]) for caller in callers)
    return each * processes / seconds
