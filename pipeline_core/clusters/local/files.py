"""The files of one attempt of a job, through which driver and supervisor communicate.

    jobs/{job}/{attempt}/
        plan.json          what to run, and the first replica attempts; never changed
        orders/, stops/    replica attempts to start, and to stop; one file per request, never changed
        journal            what happened to each of them; only the supervisor writes it
        lock               held by the supervisor and by the keepers of its replicas
        wake               FIFO: a byte says that there are new orders or stops
        logs/, work/, volumes/
        results/           {replica attempt}/{container}/ has the container's /output and /metric.json

The driver writes an order first and then looks at the lock; a supervisor that is about to exit gives up the lock first and
then looks for orders. So one of the two always sees the order.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct

from pipeline_core.clusters.local.journal import Key
from pipeline_core.common.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STOP_ALL = "all"
RESULTS = ("output", "metric.json")
"""Files at a container's root in which it leaves its output and its metrics."""
BOUND, UNKNOWN = "bound", "unknown"
"""What a plan says of results: they are bound into each container, or the TaskSet asks for them and that is impossible."""
_FLOCK = "hhqqi4x"


class AttemptFiles:
    """Paths in the directory of one job attempt, and small operations on it, all of which may be repeated."""

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

    def orders(self) -> dict[Key, None]:
        """All replica attempts that were ever ordered: those of the plan, then retries in their order."""
        keys = dict.fromkeys(Key.parse(text) for text in self.plan["replicas"])
        for name in sorted(list_names(self.at("orders"))):
            keys.update(dict.fromkeys(read_keys(self.at("orders", name))))
        return keys

    def stops(self) -> Stops:
        names = list_names(self.at("stops"))
        if STOP_ALL in names:
            return Stops(None)
        return Stops(frozenset(key for name in names for key in read_keys(self.at("stops", name))))

    def wake(self) -> None:
        """Make the supervisor, if there is one, read orders and stops again."""
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
        """The path on the host of one of a container's files of RESULTS."""
        return self.at("results", str(key), container, name)

    def held(self) -> bool:
        """Whether a supervisor, or a keeper that outlived it for a moment, holds the lock. Does not take it."""
        fd = os.open(self.at("lock"), os.O_RDWR)
        try:
            answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        finally:
            os.close(fd)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)

    def lock(self, fd: int) -> bool:
        """Lock the open `lock` file; forked children share the lock. False when another process has it."""
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
    """The replica attempts to stop; `keys` None means all."""

    __slots__ = ("keys",)

    def __init__(self, keys: frozenset[Key] | None) -> None:
        self.keys = keys

    def __contains__(self, key: object) -> bool:
        return self.keys is None or key in self.keys


def read_keys(path: str) -> list[Key]:
    with open(path, encoding="utf-8") as file:
        return [Key.parse(line) for line in file.read().split()]


def list_names(directory: str) -> list[str]:
    return [name for name in os.listdir(directory) if not name.startswith(".")]
