"""The files of one attempt of a job, through which the driver and the supervisor speak to each other.

    jobs/{job}/{attempt}/
        plan.json          what to run, and the tries that ought to exist from the beginning; never changed
        orders/, stops/    tries that ought to exist as well, tries that must end; a file per order, never changed
        journal            what happened, written by the supervisor alone
        lock               held by the supervisor and by the keepers of its replicas
        wake               FIFO: a byte says that orders or stops have changed
        logs/, work/, volumes/
        results/           {try}/{container}/ has the container's /output and /metric.json

Whoever gives an order writes the file first and then looks at the lock; a supervisor that is about to go gives up the
lock first and then looks for orders. So an order is always seen by one of the two.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct

from pipeline_core.clusters.local.journal import Key
from pipeline_core.common.files import write_all, write_durably

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

STOP_ALL = "all"
RESULTS = ("output", "metric.json")
"""Files at a container's root in which it leaves its output and its metrics."""
BOUND, UNKNOWN = "bound", "unknown"
"""What a plan says of results: each container has those files, or its TaskSet asks for them and they cannot be had."""
_FLOCK = "hhqqi4x"


class AttemptFiles:
    """Paths and small operations on the directory of one attempt. All of them may be repeated."""

    __slots__ = ("_plan", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._plan: dict[str, Any] | None = None

    def at(self, *parts: str) -> str:
        return os.path.join(self.path, *parts)

    @property
    def plan(self) -> dict[str, Any]:
        if self._plan is None:
            with open(self.at("plan.json"), encoding="utf-8") as file:
                self._plan = json.load(file)
        assert self._plan is not None
        return self._plan

    def order(self, keys: Iterable[Key]) -> None:
        write_keys(self.at("orders"), keys)

    def orders(self) -> dict[Key, None]:
        """All tries that were ever ordered, in the order of the plan, then of the retries."""
        keys = dict.fromkeys(Key.parse(text) for text in self.plan["replicas"])
        for name in sorted(_names(self.at("orders"))):
            keys.update(dict.fromkeys(read_keys(self.at("orders", name))))
        return keys

    def stop(self, keys: Iterable[Key] | None) -> None:
        if keys is None:
            if not os.path.exists(self.at("stops", STOP_ALL)):
                write_durably(self.at("stops"), STOP_ALL, b"")
        else:
            write_keys(self.at("stops"), keys)

    def stops(self) -> Stops:
        names = _names(self.at("stops"))
        if STOP_ALL in names:
            return Stops(None)
        return Stops(frozenset(key for name in names for key in read_keys(self.at("stops", name))))

    def wake(self) -> None:
        """Tell the supervisor, if there is one, to look at orders and stops."""
        try:
            fd = os.open(self.at("wake"), os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):
                return
            raise
        try:
            write_all(fd, b"\n")
        except BlockingIOError:
            pass
        finally:
            os.close(fd)

    def result(self, key: Key, container: str, name: str) -> str:
        """Where on the host a container's file of RESULTS is."""
        return self.at("results", str(key), container, name)

    def held(self) -> bool:
        """Whether a supervisor, or a keeper that outlived it for a moment, is at work. Looks without locking."""
        fd = os.open(self.at("lock"), os.O_RDWR)
        try:
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        finally:
            os.close(fd)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)

    def lock(self, fd: int) -> bool:
        """Take the lock on an open `lock` file; it is shared with forked children. False when another has it."""
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def unlock(self, fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))


class Stops:
    """Which tries must end; `keys` None means all."""

    __slots__ = ("keys",)

    def __init__(self, keys: frozenset[Key] | None) -> None:
        self.keys = keys

    def __contains__(self, key: object) -> bool:
        return self.keys is None or key in self.keys


def write_keys(directory: str, keys: Iterable[Key]) -> None:
    """Write tries to a file that is named by its contents, so that the same order given twice is one file."""
    import hashlib  # OpenSSL is more than a supervisor, which only reads, should carry.

    data = "".join(f"{key}\n" for key in keys).encode()
    names = _names(directory)
    digest = hashlib.sha256(data).hexdigest()[:16]
    if not any(name.endswith(digest) for name in names):
        write_durably(directory, f"{len(names):06d}-{digest}", data)


def read_keys(path: str) -> list[Key]:
    with open(path, encoding="utf-8") as file:
        return [Key.parse(line) for line in file.read().split()]


def _names(directory: str) -> list[str]:
    return [name for name in os.listdir(directory) if not name.startswith(".")]
