"""Processes of this machine: who they are, their groups, how to end them.

Starts are read from /proc and not by psutil: psutil gives them in seconds of the wall clock, which moves when the clock is set,
and a record on disk has to recognize a process after that.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """One process for good: a PID is used again, a PID and a start (clock ticks since boot) are not."""

    pid: int
    started: int
    group: int
    session: int
    state: str

    @property
    def alive(self) -> bool:
        """Whether it still runs: neither gone nor waiting to be reaped, and its PID not another's by now."""
        now = find(self.pid)
        return now is not None and now.started == self.started and now.state not in "ZX"


def boot_id() -> str:
    """Tells this boot of the machine from every other; starts of processes compare only within one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def find(pid: int) -> Process | None:
    """The process that has this PID now (zombies too)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in brackets and may hold blanks and brackets itself; field 3 of proc(5) comes after it.
    fields = text[text.rindex(")") + 2 :].split()
    return Process(pid=pid, started=int(fields[19]), group=int(fields[2]), session=int(fields[3]), state=fields[0])


def all_processes() -> Iterator[Process]:
    for pid in psutil.pids():
        if process := find(pid):
            yield process


def command_line(pid: int) -> list[str]:
    """The arguments that the process was started with; empty when it is gone or not ours to look at."""
    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []


def environment(pid: int) -> dict[str, str]:
    """The environment that the process was started with; empty when it is gone or not ours to look at."""
    try:
        return dict(psutil.Process(pid).environ())
    except psutil.Error:
        return {}


def send(process: Process, number: signal.Signals) -> None:
    """Signal the process, if it is still the one that it was."""
    if process.alive:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def kill_group(group: int) -> None:
    """End all processes of a group at once. The caller knows that the group is its own."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; False when it does not hold after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
