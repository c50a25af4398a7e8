"""What a replica uses, and has used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline_core.clusters.local.cgroups import group_of
from pipeline_core.clusters.local.journal import Key

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Used(NamedTuple):
    """`cpu_seconds` since its start, of everything that it ever ran; `memory_bytes` now.

    Memory is what the control group holds without what the kernel could have back at once; where there are no groups,
    the sum of what its processes have resident, so that what they share counts more than once.
    """

    cpu_seconds: float
    memory_bytes: int


def usage(plan: Mapping[str, Any], key: Key, keeper: int) -> Used | None:
    """What a running try uses, by its plan and the process that keeps it; None when it has ended meanwhile."""
    try:
        group = group_of(plan, key)
        if group is not None:
            return Used(group.cpu_seconds(), group.memory_bytes())
        return tree_usage(keeper)
    except (FileNotFoundError, ProcessLookupError):
        return None


def tree_usage(pid: int) -> Used:
    """What all that descends from a process uses, and has used if it was waited for. Raises FileNotFoundError."""
    below: dict[int, list[tuple[int, float, int]]] = {}
    for process, parent, *used in _processes():
        below.setdefault(parent, []).append((process, used[0], int(used[1])))
    fields = _fields(pid)
    seconds, memory = sum(map(int, fields[13:15])) / _TICKS, 0
    open_ends = [pid]
    while open_ends:
        for process, its_seconds, its_memory in below.get(open_ends.pop(), ()):
            seconds += its_seconds
            memory += its_memory
            open_ends.append(process)
    return Used(seconds, memory)


def _processes() -> Iterator[tuple[int, int, float, int]]:
    """Every process: pid, parent, CPU seconds with those of its children that were waited for, resident bytes."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = _fields(int(name))
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(name), int(fields[1]), sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE


def _fields(pid: int) -> list[str]:
    """What `/proc/{pid}/stat` says from the state on, which is its third field."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
