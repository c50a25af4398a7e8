"""Processes of this machine: find and identify them, signal them and their groups.

Start times are read from /proc and not by psutil: psutil converts them to the wall clock, which may be set, and a process
must still match its record on disk afterwards.
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
    """A process, identified by its PID and its start (in clock ticks since boot), since PIDs are reused."""

    pid: int
    started: int
    group: int
    session: int
    state: str

    @property
    def alive(self) -> bool:
        """Whether it still runs: not gone, no zombie, and its PID not reused."""
        now = find(self.pid)
        return now is not None and now.started == self.started and now.state not in "ZX"


def boot_id() -> str:
    """The ID of the machine's present boot; process starts are comparable only within one boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def find(pid: int) -> Process | None:
    """The process that has this PID now (zombies too)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name is in parentheses and may contain blanks and parentheses; after it comes field 3 of proc(5).
    fields = text[text.rindex(")") + 2 :].split()
    return Process(pid=pid, started=int(fields[19]), group=int(fields[2]), session=int(fields[3]), state=fields[0])


def all_processes() -> Iterator[Process]:
    for pid in psutil.pids():
        if process := find(pid):
            yield process


def command_line(pid: int) -> list[str]:
    """The arguments that the process was started with; empty when it is gone or may not be inspected."""
    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []


def environment(pid: int) -> dict[str, str]:
    """The environment that the process was started with; empty when it is gone or may not be inspected."""
    try:
        return dict(psutil.Process(pid).environ())
    except psutil.Error:
        return {}


def send(process: Process, number: signal.Signals) -> None:
    """Signal the process, unless it has ended."""
    if process.alive:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def kill_group(group: int) -> None:
    """Send SIGKILL to a process group, which must be the caller's own."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds; False when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
