"""The process that runs one job attempt: it starts a keeper for each replica attempt, and writes the journal.

It is started detached and exits when nothing is left to run. A second one for the same job attempt exits at once, since
the lock is taken.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

from pipeline_core.clusters.local import linux, process
from pipeline_core.clusters.local.cgroups import group_of
from pipeline_core.clusters.local.files import AttemptFiles
from pipeline_core.clusters.local.journal import ENDED, FAILED, STOPPED, WAITING, JournalWriter, current_states
from pipeline_core.clusters.local.keeper import DEADLINE, STOP, Keeper
from pipeline_core.clusters.local.slots import Slots
from pipeline_core.common.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pipeline_core.clusters.local.journal import Fields, Key
    from pipeline_core.clusters.local.slots import Slot

SLOT_POLL_SECONDS = 0.5
"""How often the first in the queue checks for slots of processes that died, which wake nobody; the others check less often."""
SLOT_POLL_LIMIT_SECONDS = 10.0


class KeeperHandle:
    """A keeper as the supervisor sees it: its pid, the pipes to and from it, its slot."""

    __slots__ = ("buffer", "ended", "events", "order", "orders", "pid", "slot")

    def __init__(self, pid: int, orders: int, events: int, slot: Slot) -> None:
        self.pid = pid
        self.orders = orders
        self.events = events
        self.slot = slot
        self.buffer = b""
        self.ended = False
        self.order = b""

    def send(self, order: bytes) -> None:
        """Send an order, unless one was sent before: the first one counts."""
        if not self.order:
            self.order = order
            try:
                write_all(self.orders, order)
            except BrokenPipeError:
                return

    def close(self) -> None:
        for fd in (self.orders, self.events):
            os.close(fd)
        self.slot.release()


class AttemptSupervisor:
    """Starts and stops replica attempts as ordered, until nothing is left to run."""

    def __init__(self, files: AttemptFiles, plan: dict[str, Any], lock: int) -> None:
        self._files = files
        self._plan = plan
        self._lock = lock
        self._live = os.path.join(plan["root"], "live", plan["job"])
        size = sum(role["replicas"] for role in plan["roles"].values())
        self._slots = Slots(plan["root"], plan["user"], plan["job"], plan["attempt"], size)
        self._wake = os.open(files.at("wake"), os.O_RDWR | os.O_NONBLOCK)
        self._keepers: dict[Key, KeeperHandle] = {}
        self._waiting: dict[Key, int] = {}
        self._deadline: float | None = None
        self._fresh: list[Key] = []

    def run(self) -> None:
        self._recover()
        while True:
            self._advance()
            if self._keepers or self._waiting:
                self._wait()
                continue
            self._files.unlock(self._lock)
            if not self._orders_are_left() or not self._files.lock(self._lock):
                return
            # Between the two, another supervisor may have come and gone.
            self._writer.close()
            self._recover()

    def _recover(self) -> None:
        """Restore the state from the journal; replica attempts that ran when an earlier supervisor died have failed."""
        self._woken = True
        self._writer = JournalWriter(self._files.at("journal"))
        attempts = self._writer.journal.attempts
        before = current_states(self._writer.journal, attempts, self._files.stops(), supervised=False)
        for key, fields in before.items():
            if fields.get("state") in ENDED and attempts[key].get("state") not in ENDED:
                self._remove_group(key)
                self._change(key, {"state": fields["state"], "reason": fields["reason"], "finished": time.time()})
        starts = [fields["claimed"] for fields in attempts.values() if "claimed" in fields]
        self._set_deadline(min(starts, default=None))
        self._writer.begin()

    def _set_deadline(self, first_start: float | None) -> None:
        seconds = self._plan["deadline"]
        if seconds is not None and first_start is not None and self._deadline is None:
            self._deadline = first_start + seconds

    def _orders_are_left(self) -> bool:
        attempts = self._writer.journal.attempts
        return any(key not in attempts for key in self._files.orders())

    def _advance(self) -> None:
        if self._woken:
            self._woken = False
            self._take_orders()
            self._apply_stops()
        if self._deadline is not None and time.time() >= self._deadline:
            self._end_for_deadline()
        self._start_by_slots()
        self._note_waiting()

    def _take_orders(self) -> None:
        attempts = self._writer.journal.attempts
        for key in self._files.orders():
            if key not in self._waiting and key not in self._keepers and not self._has_ended(key):
                self._waiting[key] = attempts.get(key, {}).get("since") or time.time_ns()
                if key not in attempts:
                    self._fresh.append(key)

    def _apply_stops(self) -> None:
        stops = self._files.stops()
        # A stop also counts for replica attempts that were not ordered yet.
        named = set(stops.keys or ()) | set(self._waiting)
        void = [key for key in named if key in stops and key not in self._keepers and not self._has_ended(key)]
        self._drop(void, {"state": STOPPED, "reason": "Stopped"})
        for key, kept in self._keepers.items():
            if key in stops:
                kept.send(STOP)

    def _end_for_deadline(self) -> None:
        self._drop(list(self._waiting), {"state": FAILED, "reason": "DeadlineExceeded"})
        for kept in self._keepers.values():
            kept.send(DEADLINE)

    def _has_ended(self, key: Key) -> bool:
        return self._writer.journal.attempts.get(key, {}).get("state") in ENDED

    def _drop(self, keys: list[Key], fields: Fields) -> None:
        if keys:
            self._writer.change_all(keys, {**fields, "finished": time.time()})
            for key in keys:
                self._waiting.pop(key, None)
            self._announce()

    def _start_by_slots(self) -> None:
        if not self._waiting:
            self._slots.leave()
            return
        taken = dict(zip(self._waiting, self._slots.take(list(self._waiting.values())), strict=False))
        if taken:
            now = time.time()
            self._writer.change_all(taken, {"state": WAITING, "reason": "Starting", "claimed": now}, durable=True)
            self._set_deadline(now)
            for key, slot in taken.items():
                del self._waiting[key]
                self._keepers[key] = self._fork(key, slot)

    def _note_waiting(self) -> None:
        fresh = [key for key in self._fresh if key in self._waiting]
        self._fresh = []
        for key in fresh:
            self._writer.change(key, {"state": WAITING, "reason": "WaitingForSlot", "since": self._waiting[key]})
        if fresh:
            self._announce()

    def _fork(self, key: Key, slot: Slot) -> KeeperHandle:
        order_pipe, orders = os.pipe2(os.O_CLOEXEC)
        events, event_pipe = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _close_all_but({0, 1, 2, self._lock, slot.fd, order_pipe, event_pipe})
                Keeper(self._files, self._plan, key, order_pipe, event_pipe).run()
                code = 0
            except BrokenPipeError:
                code = 0  # The supervisor is dead: nobody reads the events any more.
            finally:
                if code:
                    sys.excepthook(*sys.exc_info())
                process.end_children()
                self._remove_group(key)
                os._exit(code)
        os.close(order_pipe)
        os.close(event_pipe)
        return KeeperHandle(pid, orders, events, slot)

    def _wait(self) -> None:
        by_fd = {kept.events: key for key, kept in self._keepers.items()}
        poll = select.poll()
        for fd in (self._wake, *by_fd):
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(self._poll_milliseconds()):
            if fd == self._wake:
                os.read(self._wake, 4096)
                self._woken = True
            else:
                self._read_events(by_fd[fd])

    def _poll_milliseconds(self) -> float | None:
        """Milliseconds until it has to check for slots itself; None when others wake it."""
        times = []
        if self._waiting:
            times.append(min(SLOT_POLL_SECONDS * (1 + self._slots.position), SLOT_POLL_LIMIT_SECONDS))
        if self._deadline is not None and any(not kept.order for kept in self._keepers.values()):
            times.append(max(0.0, self._deadline - time.time()) + 0.001)
        return min(min(times) * 1000, linux.LONGEST_POLL) if times else None

    def _read_events(self, key: Key) -> None:
        kept = self._keepers[key]
        data = os.read(kept.events, 65536)
        *lines, kept.buffer = (kept.buffer + data).split(b"\n")
        for line in lines:
            fields = json.loads(line)
            kept.ended = kept.ended or fields.get("state") in ENDED
            self._change(key, fields)
        if not data:
            self._remove_keeper(key, kept)

    def _remove_keeper(self, key: Key, kept: KeeperHandle) -> None:
        os.waitpid(kept.pid, 0)
        del self._keepers[key]
        if not kept.ended:
            # The processes of a keeper that was killed have become our children.
            process.end_children(frozenset(other.pid for other in self._keepers.values()))
            self._remove_group(key)
            self._change(key, {"state": FAILED, "reason": "SupervisorLost", "finished": time.time()})
        kept.close()
        self._slots.pass_on()

    def _remove_group(self, key: Key) -> None:
        group = group_of(self._plan, key)
        if group is not None:
            group.remove()

    def _change(self, key: Key, fields: Fields) -> None:
        self._writer.change(key, fields)
        self._announce()

    def _announce(self) -> None:
        """Touch the file that the watch follows; there is none when the job was deleted."""
        try:
            os.utime(self._live)
        except FileNotFoundError:
            return


def _close_all_but(kept: set[int]) -> None:
    last = 0
    for fd in sorted(kept):
        # An empty range that begins at 0 would be taken for all there is.
        if last < fd:
            os.closerange(last, fd)
        last = fd + 1
    os.closerange(last, os.sysconf("SC_OPEN_MAX"))


def main(directory: str) -> None:
    """Supervise the job attempt in this directory, unless another process does."""
    _close_all_but({0, 1, 2})
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o022)
    files = AttemptFiles(directory)
    lock = os.open(files.at("lock"), os.O_RDWR)
    if files.lock(lock):
        linux.become_subreaper()
        os.makedirs(files.at("logs"), exist_ok=True)
        AttemptSupervisor(files, files.plan, lock).run()
