"""How many replicas run at a time, over all jobs of one data directory.

A slot is a file that whoever runs a replica has locked; the kernel lets go of it when they die, however they die. Jobs
that find no slot stand in line, each with one ticket, a locked file named after time, user and job; whoever got a slot
and wants another gets a new ticket. Users take turns, and only the front of the line may take slots.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FRONT = 4
"""How many in line may try at once: a front of one would start only one replica per look."""


class Slots:
    """One job's view of the slots in `directory/slots`; its tickets are in `directory/line`."""

    def __init__(self, directory: str, count: int, user: str, job: str) -> None:
        self._slots = os.path.join(directory, "slots")
        self._line = os.path.join(directory, "line")
        self._count = count
        self._owner = f"{zlib.crc32(user.encode()):08x}-{job}"
        self._ticket = ""
        self._ticket_fd = -1
        self.position = 0
        os.makedirs(self._slots, exist_ok=True)
        os.makedirs(self._line, exist_ok=True)

    def take(self) -> int | None:
        """A locked slot's file descriptor; close it to give the slot back.

        None, and a place in line, when none is free.
        """
        line = self._living_line()
        self.position = line.index(self._ticket) if self._ticket in line else len(line)
        if self.position < FRONT:
            slot = self._free_slot()
            if slot is not None:
                self.leave()
                return slot
        if not self._ticket:
            self._stand_in_line()
        return None

    def leave(self) -> None:
        """Give up the place in line."""
        if self._ticket:
            os.unlink(os.path.join(self._line, self._ticket))
            os.close(self._ticket_fd)
            self._ticket, self._ticket_fd = "", -1

    def _free_slot(self) -> int | None:
        for number in range(self._count):
            fd = os.open(os.path.join(self._slots, str(number)), os.O_RDWR | os.O_CREAT, 0o600)
            if _lock(fd):
                return fd
            os.close(fd)
        return None

    def _stand_in_line(self) -> None:
        ticket = f"{time.time_ns():020d}-{self._owner}"
        hidden = os.path.join(self._line, f".{ticket}")
        self._ticket_fd = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o600)
        _lock(self._ticket_fd)
        os.rename(hidden, os.path.join(self._line, ticket))
        self._ticket = ticket

    def _living_line(self) -> list[str]:
        """All tickets in their order, without those that the dead left at its front."""
        line = in_turn(name for name in os.listdir(self._line) if not name.startswith("."))
        living: list[str] = []
        for number, ticket in enumerate(line):
            if len(living) == FRONT:
                return living + line[number:]
            if ticket == self._ticket or not self._clear_if_dead(os.path.join(self._line, ticket)):
                living.append(ticket)
        return living

    def _clear_if_dead(self, path: str) -> bool:
        try:
            fd = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            if not _lock(fd):
                return False
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return True
        finally:
            os.close(fd)


def in_turn(tickets: Iterable[str]) -> list[str]:
    """Tickets in the order in which they are served: everybody's first, then everybody's second, and so on, by age."""
    counts: dict[str, int] = {}
    ranked = []
    for ticket in sorted(tickets):
        user = ticket.split("-", 2)[1]
        ranked.append((counts.get(user, 0), ticket))
        counts[user] = counts.get(user, 0) + 1
    return [ticket for _, ticket in sorted(ranked)]


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
