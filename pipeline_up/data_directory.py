"""The data directory of a run of `pipeline up`: its lock, and the record of the processes that the run started."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pipeline_core.errors import ConfigurationError
from pipeline_up import os_processes
from pipeline_up.os_processes import Process

RUN_VARIABLE = "PIPELINE_RUN"
# Claimed steps are in the database: waiting longer for workers to drain would only delay the start.
REAP_SECONDS = 3.0


class DataDirectory:
    """A data directory, locked by this process.

    Entering it creates the directory, takes its lock and ends the processes that an earlier run left behind when it was
    killed; `reaped` has their names. Raises ConfigurationError when another run holds the lock, or the directory cannot be
    used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.run_id = secrets.token_hex(8)
        self.reaped: list[str] = []
        self._recorded: dict[str, dict[str, Any]] = {}
        self._lock: int | None = None

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def _record(self) -> Path:
        return self.path / "run" / "processes.json"

    def __enter__(self) -> Self:
        try:
            # The embedded servers may run as another account, which has to traverse the directory.
            self.path.mkdir(mode=0o711, parents=True, exist_ok=True)
            for directory in (self.logs, self._record.parent):
                directory.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(self.path / "run" / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"The data directory {self.path} cannot be used: {error.strerror} ({error.filename})."
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._lock, 32, 0).decode() or "unknown"
            os.close(self._lock)
            raise ConfigurationError(
                f"The data directory {self.path} is in use by another run (process {holder})."
            ) from error
        os.truncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)
        self.reaped = self._reap()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lock is not None
        os.close(self._lock)

    def record(self, name: str, pid: int, stop_signal: signal.Signals) -> None:
        """Note a process just started, the leader of its own session, so that a later run can end it."""
        if process := os_processes.find(pid):
            self._recorded[name] = {"pid": pid, "started": process.started, "stop": stop_signal.name}
            self._save()

    def forget(self, name: str) -> None:
        """Remove the record of a process that has ended with its group."""
        self._recorded.pop(name, None)
        self._save()

    def _save(self) -> None:
        draft = self._record.with_suffix(".new")
        draft.write_text(json.dumps({"boot": os_processes.boot_id(), "run": self.run_id, "processes": self._recorded}))
        draft.replace(self._record)

    def _reap(self) -> list[str]:
        """End the processes that the recorded run left behind, and return their names."""
        if not self._record.exists():
            return []
        try:
            record = json.loads(self._record.read_text())
        except ValueError:  # cut short by a crash of the machine, which nothing outlived
            return []
        if record["boot"] != os_processes.boot_id():
            return []
        left = {name: group for name, entry in record["processes"].items() if (group := leftover(entry, record["run"]))}
        for name, group in left.items():
            number = signal.Signals[record["processes"][name]["stop"]]
            for process in [one for one in group if one.pid == one.group] or group:
                os_processes.send(process, number)
        everyone = [process for group in left.values() for process in group]
        if not os_processes.wait_until(lambda: not any(process.alive for process in everyone), REAP_SECONDS):
            for process in everyone:
                os_processes.send(process, signal.SIGKILL)
            os_processes.wait_until(lambda: not any(process.alive for process in everyone), REAP_SECONDS)
        self._record.unlink()
        return list(left)


def leftover(entry: dict[str, Any], run: str) -> list[Process]:
    """The processes of a recorded process's group that still run.

    The leader is recognized by its start time. When it is gone, members of the group count only if their environment has
    the run's ID, since PIDs are reused.
    """
    leader = os_processes.find(entry["pid"])
    if leader is not None and leader.started != entry["started"]:
        return []
    members = [process for process in os_processes.all_processes() if process.group == entry["pid"] and process.alive]
    if leader is not None:
        return members
    return [process for process in members if os_processes.environment(process.pid).get(RUN_VARIABLE) == run]
