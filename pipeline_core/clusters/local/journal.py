"""The journal of one job attempt: lines of JSON, appended by the supervisor that holds the lock, and nobody else.

A line is either `{"boot": …}`, written when a supervisor starts, with the boot of the machine, or `{"key": …}` with the
fields of that replica attempt that have changed. A line that a crash cut off is ignored. Before a replica attempt is
started, a line that claims it is on disk: so none is started twice.
"""

from __future__ import annotations

import json
import os

from pipeline_core.common.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from typing import Any

WAITING, RUNNING, SUCCEEDED, FAILED, STOPPED = "waiting", "running", "succeeded", "failed", "stopped"
ENDED = frozenset({SUCCEEDED, FAILED, STOPPED})
Fields = dict[str, "Any"]


class Key(tuple[str, int, int]):
    """A replica attempt: role, index, attempt; as text `role.index.attempt`."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Key:
        role, index, attempt = text.split(".")
        return cls((role, int(index), int(attempt)))

    def __str__(self) -> str:
        return f"{self[0]}.{self[1]}.{self[2]}"


class Journal:
    """The content of a journal: the current fields of each replica attempt."""

    __slots__ = ("attempts", "boot")

    def __init__(self) -> None:
        self.boot = ""
        self.attempts: dict[Key, Fields] = {}

    @classmethod
    def read(cls, path: str) -> Journal:
        journal = cls()
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            journal.add(entry)
        return journal

    def add(self, entry: Fields) -> None:
        if "boot" in entry:
            self.boot = entry["boot"]
        else:
            self.attempts.setdefault(Key.parse(entry["key"]), {}).update(entry)


class JournalWriter:
    """Appends to a journal, and keeps its content."""

    def __init__(self, path: str) -> None:
        self.journal = Journal.read(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        # Terminates a line that a crash cut off.
        self._write(b"\n")

    def begin(self) -> None:
        entry = {"boot": boot_id()}
        self.journal.add(entry)
        self._write(_line(entry))

    def change(self, key: Key, fields: Mapping[str, Any]) -> None:
        self.change_all([key], fields)

    def change_all(self, keys: Iterable[Key], fields: Mapping[str, Any], *, durable: bool = False) -> None:
        """Append the same change of several replica attempts. With `durable`, it survives a power failure."""
        entries = [{"key": str(key), **fields} for key in keys]
        for entry in entries:
            self.journal.add(entry)
        self._write(b"".join(_line(entry) for entry in entries))
        if durable:
            os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        write_all(self._fd, data)


def current_fields(fields: Fields, *, stopped: bool, supervised: bool, same_boot: bool) -> Fields:
    """The fields of a replica attempt with its state now: by the journal, whether it was ordered to stop, and whether its
    supervisor runs.
    """
    state = fields.get("state", WAITING)
    if state in ENDED or supervised:
        return {"state": state, **fields}
    if stopped:
        return {**fields, "state": STOPPED, "reason": "Stopped"}
    if fields.get("claimed"):
        reason = "SupervisorLost" if same_boot else "HostRestarted"
        return {**fields, "state": FAILED, "reason": reason}
    return {**fields, "state": WAITING}


def current_states(
    journal: Journal, ordered: Iterable[Key], stops: Container[Key], *, supervised: bool
) -> dict[Key, Fields]:
    same_boot = journal.boot == boot_id()
    return {
        key: current_fields(
            journal.attempts.get(key, {}), stopped=key in stops, supervised=supervised, same_boot=same_boot
        )
        for key in ordered
    }


def boot_id() -> str:
    """The ID of the running boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _line(entry: Fields) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"
