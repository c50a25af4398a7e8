"""One job attempt as the service sees it: it writes orders as files, and reads states, usage and results from files."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from pipeline_core.clusters import base
from pipeline_core.clusters.base import Observation, ReplicaReport, ReplicaResult
from pipeline_core.clusters.local.cgroups import group_of
from pipeline_core.clusters.local.files import BOUND, STOP_ALL, UNKNOWN, AttemptFiles, list_names
from pipeline_core.clusters.local.journal import ENDED, RUNNING, Fields, Journal, Key, current_states
from pipeline_core.clusters.local.launcher import start_supervisor
from pipeline_core.clusters.logs import LogFile
from pipeline_core.common.clock import now
from pipeline_core.common.files import write_durably
from pipeline_core.states import ReplicaState
from pipeline_core.taskset.results import MAX_METRICS, MAX_OUTPUT, METRICS_FILE, OUTPUT_FILE

ADDRESS = "127.0.0.1"
START_SECONDS = 5.0
"""How long a supervisor may take to lock its files until another one is started."""


class LocalAttempt:
    """A job attempt, by its directory. Every method is idempotent and may be called by any process."""

    def __init__(self, path: Path, number: int) -> None:
        self.number = number
        self._path = path
        self._files = AttemptFiles(str(path))
        self._read: tuple[int, Journal] = (-1, Journal())

    @property
    def plan(self) -> Mapping[str, Any]:
        return self._files.plan

    @staticmethod
    def write(path: Path, plan: Mapping[str, Any], keys: Sequence[Key]) -> None:
        """Fill a new directory, durably, with a plan and its first replica attempts."""
        for name in ("orders", "stops"):
            (path / name).mkdir(parents=True)
        for name in ("journal", "lock"):
            (path / name).touch(0o600)
        os.mkfifo(path / "wake", 0o600)
        whole = {**plan, "replicas": [str(key) for key in keys]}
        write_durably(str(path), "plan.json", json.dumps(whole).encode())

    def order(self, keys: Sequence[Key]) -> None:
        known = self._files.orders()
        fresh = [key for key in keys if key not in known]
        if fresh:
            _write_keys(self._files.at("orders"), fresh)

    def ensure_supervisor(self) -> None:
        """Wake the supervisor; start one when there is none and something is left to start."""
        if self._files.held():
            self._files.wake()
        elif self._has_unstarted():
            (self._path / "supervisor.log").touch()
            start_supervisor(self._path)

    def revive(self) -> None:
        """Start another supervisor when the last one died with orders left."""
        try:
            age = time.time() - (self._path / "supervisor.log").stat().st_mtime
        except FileNotFoundError:
            age = START_SECONDS
        if age >= START_SECONDS:
            self.ensure_supervisor()

    def stop(self, keys: Sequence[Key] | None) -> bool:
        """Order replica attempts, or with None all, to stop. True when none of them runs or will ever run."""
        if keys is not None:
            _write_keys(self._files.at("stops"), keys)
        elif not os.path.exists(self._files.at("stops", STOP_ALL)):
            write_durably(self._files.at("stops"), STOP_ALL, b"")
        if not self._files.held():
            return self._kill_orphans(Journal.read(self._files.at("journal")))
        self._files.wake()
        if keys is None:
            return False
        attempts = Journal.read(self._files.at("journal")).attempts
        return all(attempts.get(key, {}).get("state") in ENDED for key in keys)

    def observe(self) -> Observation:
        latest: dict[tuple[str, int], Key] = {}
        states = self._states()
        for key in states:
            place = key[:2]
            if place not in latest or latest[place] < key:
                latest[place] = key
        plan = self.plan
        platform = {
            "platform": "local",
            "apiVersion": plan["apiVersion"],
            "namespace": plan["namespace"],
            "instanceUID": plan["instance"],
            "notes": plan["notes"],
        }
        reports = tuple(self._report(key, states[key]) for key in latest.values())
        return Observation(plan["job"], self.number, reports, platform)

    def with_usage(self) -> Observation:
        """The observation with the usage of running replicas; CPU is the average since their start."""
        found = self.observe()
        return replace(found, replicas=tuple(map(self._measured, found.replicas)))

    def _measured(self, report: ReplicaReport) -> ReplicaReport:
        used = self.usage(Key((report.role, report.index, report.attempt)))
        if used is None or report.started_at is None:
            return report
        seconds = max((now() - report.started_at).total_seconds(), 1.0)
        return replace(report, usage=base.ReplicaUsage(used.cpu_seconds / seconds, used.memory_bytes))

    def usage(self, key: Key) -> ProcessUsage | None:
        """What a replica attempt uses at present; None when it does not run."""
        fields = self._states().get(key, {})
        if fields.get("state") != RUNNING or "keeper" not in fields:
            return None
        return usage(self.plan, key, fields["keeper"])

    def results(self) -> Iterator[ReplicaResult]:
        """The results of the latest replica attempts that have ended."""
        ended = [report for report in self.observe().replicas if report.state.ended]
        return read_results(self._files, (Key((one.role, one.index, one.attempt)) for one in ended))

    def replica_attempts(self) -> list[Key]:
        """All replica attempts that were ever ordered."""
        return list(self._files.orders())

    def log_files(self, key: Key) -> Iterator[LogFile]:
        """The log files of a replica attempt."""
        role = self.plan["roles"][key[0]]
        names = [container["name"] for container in (*role["init"], *role["containers"])]
        for name in names:
            source = f"{key[0]}-{key[1]}" + (f"/{name}" if len(names) > 1 else "")
            yield LogFile(self._path / "logs" / f"{key}.{name}.log", source, f"{self.number}/{key}.{name}")

    def have_ended(self, keys: Collection[Key]) -> bool:
        """Whether all these replica attempts have ended."""
        states = self._states()
        return all(states[key]["state"] in ENDED for key in keys if key in states)

    def log_bytes(self) -> int:
        """How many bytes its logs have."""
        with suppress(FileNotFoundError):
            return sum(path.stat().st_size for path in (self._path / "logs").rglob("*") if path.is_file())
        return 0

    def remove_logs(self) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path / "logs")

    def _has_unstarted(self) -> bool:
        return any(fields["state"] not in ENDED and not fields.get("claimed") for fields in self._states().values())

    def _states(self) -> dict[Key, Fields]:
        path = self._path / "journal"
        while True:
            size = path.stat().st_size
            if self._read[0] != size:
                self._read = (size, Journal.read(str(path)))
            supervised = self._files.held()
            # That there is no supervisor says something about the journal only if it did not change meanwhile.
            if supervised or path.stat().st_size == size:
                if not supervised:
                    self._kill_orphans(self._read[1])
                return current_states(self._read[1], self._files.orders(), self._files.stops(), supervised=supervised)

    def _kill_orphans(self, journal: Journal) -> bool:
        """Kill processes in control groups that outlived keeper and supervisor. Returns whether all are gone."""
        lost = [key for key, fields in journal.attempts.items() if "claimed" in fields and fields["state"] not in ENDED]
        cleared = [group.clear() for key in lost if (group := group_of(self.plan, key)) is not None]
        return all(cleared)

    def _report(self, key: Key, fields: Fields) -> ReplicaReport:
        role, index, attempt = key
        pod = f"{self.plan['job']}-{role}-{self.number}-{attempt}-{index}"
        address = ADDRESS if fields.get("started") else ""
        return ReplicaReport(
            role=role,
            index=index,
            attempt=attempt,
            state=ReplicaState(fields["state"]),
            reason=fields.get("reason", ""),
            exit_code=fields.get("exit"),
            diagnostics=fields.get("diagnostics", ""),
            started_at=_time(fields.get("started")),
            finished_at=_time(fields.get("finished")),
            container_id=str(fields.get("pid", "")),
            host_ip=address,
            pod_ip=address,
            pod_name=pod,
            pod_uid=str(uuid.uuid5(uuid.UUID(self.plan["instance"]), pod)),
            restarts=fields.get("restarts", 0),
        )


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _write_keys(directory: str, keys: Iterable[Key]) -> None:
    """Write replica attempts to a file that is named by a digest of its contents, so that a repeated order adds no file."""
    data = "".join(f"{key}\n" for key in keys).encode()
    names = list_names(directory)
    digest = hashlib.sha256(data).hexdigest()[:16]
    if not any(name.endswith(digest) for name in names):
        write_durably(directory, f"{len(names):06d}-{digest}", data)


class ProcessUsage(NamedTuple):
    """`cpu_seconds` of everything that it ever ran; `memory_bytes` now.

    Memory is that of the control group without what the kernel could reclaim at once; without control groups, the sum of
    the resident memory of its processes, in which shared pages count more than once.
    """

    cpu_seconds: float
    memory_bytes: int


def usage(plan: Mapping[str, Any], key: Key, keeper: int) -> ProcessUsage | None:
    """What a running replica attempt uses, by its plan and the pid of its keeper; None when it has ended meanwhile."""
    try:
        group = group_of(plan, key)
        if group is not None:
            return ProcessUsage(group.cpu_seconds(), group.memory_bytes())
        return tree_usage(keeper)
    except (FileNotFoundError, psutil.NoSuchProcess):
        return None


def tree_usage(pid: int) -> ProcessUsage:
    """What all descendants of a process use, and what those used that were waited for. Raises psutil.NoSuchProcess."""
    process = psutil.Process(pid)
    times = process.cpu_times()
    seconds, memory = times.children_user + times.children_system, 0
    for descendant in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess), descendant.oneshot():
            seconds += sum(descendant.cpu_times()[:4])
            memory += descendant.memory_info().rss
    return ProcessUsage(seconds, memory)


NOT_COLLECTED = f"{OUTPUT_FILE} and {METRICS_FILE} are not collected on this machine"

_NO_FILE = frozenset({errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM, errno.ENOTDIR})


def read_results(files: AttemptFiles, keys: Iterable[Key]) -> Iterator[ReplicaResult]:
    """The results of replica attempts that have ended. Raises OSError.

    The files are untrusted: the job's processes may have replaced them by anything and made them of any size.
    """
    kind = files.plan.get("results")
    for key in keys:
        if kind == UNKNOWN:
            yield ReplicaResult(*key, output_problem=NOT_COLLECTED, metrics_problem=NOT_COLLECTED, unknown=True)
        elif kind == BOUND and not (found := _result(files, key)).empty:
            yield found


def _result(files: AttemptFiles, key: Key) -> ReplicaResult:
    output, output_problem = _first(files, key, OUTPUT_FILE, MAX_OUTPUT)
    metrics, metrics_problem = _first(files, key, METRICS_FILE, MAX_METRICS)
    return ReplicaResult(*key, output, metrics, output_problem, metrics_problem)


def _first(files: AttemptFiles, key: Key, target: str, limit: int) -> tuple[bytes | None, str]:
    """That of the first container that left something there."""
    found = (_content(path, target, limit) for path in _paths(files, key, target.lstrip("/")))
    return next((one for one in found if one != (None, "")), (None, ""))


def _paths(files: AttemptFiles, key: Key, name: str) -> Iterator[str]:
    for container in files.plan["roles"][key[0]]["containers"]:
        if not container["sidecar"]:
            yield files.result(key, container["name"], name)


def _content(path: str, target: str, limit: int) -> tuple[bytes | None, str]:
    """The beginning of a file, at most one byte above the limit, or what is wrong with it; neither when there is nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        return None, f"{target} cannot be read: {error.strerror}"
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None, f"{target} is no regular file"
        with open(fd, "rb", closefd=False) as file:
            return file.read(limit + 1) or None, ""
    finally:
        os.close(fd)
