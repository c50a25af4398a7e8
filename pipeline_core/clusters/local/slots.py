"""The limit of replicas that run at a time, over all jobs of one data directory, and the queue of those that wait.

    slots/limit    how many may run; 0 is no limit
    slots/turn     locked by the process that reads or changes the others
    slots/held/    a file per running replica, locked by the processes that run it
    slots/line/    a file per job of which replicas wait, locked by its supervisor

The kernel releases a lock when its holder dies, however that happens: a file that nobody has locked is left over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib

from pipeline_core.clusters.local.files import AttemptFiles
from pipeline_core.common.files import write_durably

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Ticket:
    """A job that waits. `since` is when the first of its waiting replicas was ordered, `size` its number of replicas."""

    __slots__ = ("attempt", "job", "since", "size", "user")

    def __init__(self, since: int, user: str, size: int, attempt: int, job: str) -> None:
        self.since = since
        self.user = user
        self.size = size
        self.attempt = attempt
        self.job = job

    @classmethod
    def parse(cls, name: str) -> Ticket:
        since, user, size, attempt, job = name.split("-", 4)
        return cls(int(since), user, int(size), int(attempt), job)

    def __str__(self) -> str:
        return f"{self.since}-{self.user}-{self.size}-{self.attempt}-{self.job}"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Holder:
    """A running replica: its user and its job attempt."""

    __slots__ = ("attempt", "job", "user")

    def __init__(self, user: str, attempt: int, job: str) -> None:
        self.user = user
        self.attempt = attempt
        self.job = job

    @classmethod
    def parse(cls, name: str) -> Holder:
        user, attempt, _, job = name.split("-", 3)
        return cls(user, int(attempt), job)


def serving_order(tickets: Iterable[Ticket], held: Iterable[Holder], limit: int) -> list[Ticket]:
    """The jobs in the order in which they get slots.

    First come jobs of which some replicas run, if all of them can run at a time: those may be waiting for the others, and
    two such jobs that each had some of the slots would wait for ever. Then come jobs of the user with the fewest running
    replicas; within a user, and between users with equally many, whoever has waited longest.
    """
    running: dict[str, int] = {}
    begun = set()
    for holder in held:
        running[holder.user] = running.get(holder.user, 0) + 1
        begun.add((holder.job, holder.attempt))

    def rank(ticket: Ticket) -> tuple[bool, int, int, str]:
        goes_on = (ticket.job, ticket.attempt) in begun and ticket.size <= limit
        return not goes_on, 0 if goes_on else running.get(ticket.user, 0), ticket.since, str(ticket)

    return sorted(tickets, key=rank)


class Slot:
    """The right to run one replica; the kernel releases it when all processes that have `fd` open have ended."""

    __slots__ = ("_path", "fd")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self.fd = fd

    def release(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        os.close(self.fd)


class Slots:
    """The slots as one job attempt sees them; `root` is the cluster's directory, `size` the job's number of replicas.

    `position` is its place in the queue at the last check, from 0.
    """

    def __init__(self, root: str, user: str, job: str, attempt: int, size: int) -> None:
        self._root = root
        self._user = f"{zlib.crc32(user.encode()):08x}"
        self._job = job
        self._attempt = attempt
        self._size = size
        self._ticket: Ticket | None = None
        self._ticket_fd = -1
        self.position = 0
        for name in ("held", "line"):
            os.makedirs(self._at(name), exist_ok=True)

    def take(self, waiting: Sequence[int]) -> list[Slot]:
        """Take as many slots as there are for those that wait, and a place in the queue for the rest.

        `waiting` has for each replica attempt the time since which it waits, in nanoseconds, the earliest first.
        """
        limit = read_limit(self._root)
        taken: list[Slot] = []
        if not limit:
            with self._queue_lock():
                self._leave_queue()
                return [self._hold() for _ in waiting]
        with self._queue_lock():
            held = self._held()
            others = self._others()
            line = []
            for since in waiting:
                mine = Ticket(since, self._user, self._size, self._attempt, self._job)
                line = serving_order([mine, *others], held, limit)
                while len(held) < limit and line[0] != mine and self._clear_if_dead(line[0]):
                    others.remove(line.pop(0))
                if len(held) >= limit or line[0] != mine:
                    self._enqueue(mine)
                    self.position = line.index(mine)
                    break
                taken.append(self._hold())
                held.append(Holder(self._user, self._attempt, self._job))
            else:
                self._leave_queue()
                line = serving_order(others, held, limit)
        if len(held) < limit and line:
            self._wake(line[0])
        return taken

    def leave(self) -> None:
        """Give up the place in the queue, if it has one."""
        if self._ticket is not None:
            with self._queue_lock():
                self._leave_queue()
            self.pass_on()

    def pass_on(self) -> None:
        """Wake the job that is next, if a slot is free: to be called when one was released."""
        limit = read_limit(self._root)
        if limit:
            with self._queue_lock():
                held = self._held()
                line = serving_order(self._others(), held, limit)
                while len(held) < limit and line and self._clear_if_dead(line[0]):
                    line.pop(0)
            if len(held) < limit and line:
                self._wake(line[0])

    def _at(self, *names: str) -> str:
        return os.path.join(self._root, "slots", *names)

    @contextlib.contextmanager
    def _queue_lock(self) -> Iterator[None]:
        fd = os.open(self._at("turn"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _hold(self) -> Slot:
        path = self._at("held", f"{self._user}-{self._attempt}-{os.urandom(8).hex()}-{self._job}")
        return Slot(path, _locked(path))

    def _held(self) -> list[Holder]:
        names = os.listdir(self._at("held"))
        return [Holder.parse(name) for name in names if not _removed_if_unlocked(self._at("held", name))]

    def _others(self) -> list[Ticket]:
        return [Ticket.parse(name) for name in os.listdir(self._at("line")) if name != str(self._ticket)]

    def _clear_if_dead(self, ticket: Ticket) -> bool:
        return _removed_if_unlocked(self._at("line", str(ticket)))

    def _enqueue(self, ticket: Ticket) -> None:
        if ticket != self._ticket:
            self._leave_queue()
            self._ticket, self._ticket_fd = ticket, _locked(self._at("line", str(ticket)))

    def _leave_queue(self) -> None:
        if self._ticket is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._at("line", str(self._ticket)))
            os.close(self._ticket_fd)
            self._ticket, self._ticket_fd = None, -1

    def _wake(self, ticket: Ticket) -> None:
        AttemptFiles(os.path.join(self._root, "jobs", ticket.job, str(ticket.attempt))).wake()


def read_limit(root: str) -> int:
    """How many replicas may run at a time in a cluster's directory; 0 is no limit."""
    try:
        with open(os.path.join(root, "slots", "limit"), encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def write_limit(root: str, limit: int) -> None:
    """Set how many replicas may run at a time; those that run already stay."""
    os.makedirs(os.path.join(root, "slots"), exist_ok=True)
    if not os.path.exists(os.path.join(root, "slots", "limit")) or read_limit(root) != limit:
        write_durably(os.path.join(root, "slots"), "limit", str(limit).encode())


def _locked(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def _removed_if_unlocked(path: str) -> bool:
    """Remove the file if nobody has locked it; whether it is gone."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return True
    finally:
        os.close(fd)
