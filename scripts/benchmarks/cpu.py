"""CPU time of the processes that this one has started, by what they are. It is steadier than the clock on a busy machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

import psutil

SERVERS = ("postgres", "valkey", "beat")


def seconds() -> dict[str, float]:
    """The CPU time so far of each child of this process with all that it has started: workers by name, servers by kind."""
    used: defaultdict[str, float] = defaultdict(float)
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            used[name(child)] += sum(map(seconds_of, [child, *child.children(recursive=True)]))
    return dict(used)


def milliseconds_each(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    """What each of so many jobs took, and `all` of it together."""
    each = {name: (after[name] - before.get(name, 0.0)) * 1000 / count for name in after}
    return {**each, "all": sum(each.values())}


def seconds_of(process: psutil.Process) -> float:
    """The CPU time of a process and of its children that have ended; 0 if it has ended itself, since its parent has that then."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def name(process: psutil.Process) -> str:
    """What the process is: a worker by its name, a server by its kind, or `others`."""
    words = process.cmdline()
    if "-n" in words:
        return str(words[words.index("-n") + 1].partition("@")[0])
    line = " ".join(words)
    return next((server for server in SERVERS if server in line), "others")
