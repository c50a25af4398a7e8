"""Control groups of version 1 or 2: limits of memory and CPU, usage, and killing all that a replica started.

A replica has a group below `pipeline` in every hierarchy that is used, and each of its containers one below that.
https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

    from pipeline_core.clusters.local.journal import Key

Place = dict[str, str]
"""Where groups are made: each controller's directory; `version` is "1" or "2"."""

TOP: Final = "pipeline"
CONTROLLERS: Final = {"1": ("memory", "cpu", "cpuacct"), "2": ("memory", "cpu")}
PERIOD_MICROSECONDS: Final = 100_000
GONE_SECONDS: Final = 5.0
"""How long killed processes are waited for."""
_NO_SWAP: Final = {"1": "memory.memsw.limit_in_bytes", "2": "memory.swap.max"}


class Group:
    """The control groups of one replica attempt, which need not exist. Every method raises OSError."""

    __slots__ = ("_directories", "_version")

    def __init__(self, place: Place, name: str) -> None:
        self._version = place["version"]
        self._directories = {
            controller: os.path.join(place[controller], name) for controller in CONTROLLERS[self._version]
        }

    def make(self, container: str, limits: Mapping[str, int]) -> list[str]:
        """Make a container's group; a process joins it by writing "0" to the files that are returned.

        `limits`: `memory` in bytes and `cpu` in microseconds of every 100 ms; what is not named is unlimited.
        """
        for directory in self._all():
            os.makedirs(_of(directory, container), exist_ok=True)
            if self._version == "2":
                _hand_down(os.path.dirname(directory))
                _hand_down(directory)
        memory, cpu = (_of(self._directories[name], container) for name in ("memory", "cpu"))
        if "memory" in limits:
            self._limit_memory(memory, limits["memory"])
        if "cpu" in limits and self._version == "2":
            _write(cpu, "cpu.max", f"{limits['cpu']} {PERIOD_MICROSECONDS}")
        elif "cpu" in limits:
            _write(cpu, "cpu.cfs_period_us", PERIOD_MICROSECONDS)
            _write(cpu, "cpu.cfs_quota_us", limits["cpu"])
        return [os.path.join(_of(directory, container), "cgroup.procs") for directory in self._all()]

    def _limit_memory(self, directory: str, limit: int) -> None:
        if self._version == "2":
            _write(directory, "memory.max", limit)
            # All of a container ends at once, rather than one process of it.
            _write(directory, "memory.oom.group", 1)
        else:
            _write(directory, "memory.limit_in_bytes", limit)
        swap = _NO_SWAP[self._version]
        if os.path.exists(os.path.join(directory, swap)):
            _write(directory, swap, 0 if self._version == "2" else limit)

    def oom_kills(self, container: str) -> int:
        """How many of a container's processes were killed because of its memory limit."""
        name = "memory.events" if self._version == "2" else "memory.oom_control"
        return _table(_of(self._directories["memory"], container), name).get("oom_kill", 0)

    def cpu_seconds(self) -> float:
        """CPU time of all processes that ever were in it."""
        if self._version == "2":
            return _table(self._directories["cpu"], "cpu.stat")["usage_usec"] / 1e6
        return int(_read(self._directories["cpuacct"], "cpuacct.usage")) / 1e9

    def memory_bytes(self) -> int:
        """Memory in use, without what the kernel could reclaim at once: what a limit counts."""
        directory = self._directories["memory"]
        if self._version == "2":
            held, idle = _read(directory, "memory.current"), "inactive_file"
        else:
            held, idle = _read(directory, "memory.usage_in_bytes"), "total_inactive_file"
        return max(0, int(held) - _table(directory, "memory.stat").get(idle, 0))

    def clear(self) -> bool:
        """Kill its processes and remove it, if that is possible at once; whether it is gone."""
        for directory in self._all():
            self._kill(directory)
        for directory in self._all():
            for path in [*_children(directory), directory]:
                with contextlib.suppress(OSError):
                    os.rmdir(path)
        return not any(map(os.path.exists, self._all()))

    def remove(self) -> None:
        """Clear it; waits for processes that take a while to end."""
        until = time.monotonic() + GONE_SECONDS
        while not self.clear() and time.monotonic() < until:
            time.sleep(0.01)

    def _all(self) -> list[str]:
        return list(dict.fromkeys(self._directories.values()))

    def _kill(self, directory: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if os.path.exists(os.path.join(directory, "cgroup.kill")):
                _write(directory, "cgroup.kill", 1)
                return
        for path in [*_children(directory), directory]:
            with contextlib.suppress(FileNotFoundError):
                for pid in map(int, _read(path, "cgroup.procs").split()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def _of(directory: str, container: str) -> str:
    # A container may be called like one of the files that are there.
    return os.path.join(directory, f"container-{container}")


def name_of(plan: Mapping[str, Any], key: Key) -> str:
    """The name of a replica attempt's group, unique over all jobs."""
    return f"{plan['instance']}.{plan['attempt']}.{key}"


def group_of(plan: Mapping[str, Any], key: Key) -> Group | None:
    """A replica attempt's group; None when its plan was made where no groups can be made."""
    place = plan.get("cgroups")
    return Group(place, name_of(plan, key)) if place else None


def paths_to_own_group(mounts: str, own: str) -> dict[str, list[str]]:
    """By controller, or "" for version 2, the paths of the groups that this process is in, from the top of the mount.

    `mounts` and `own` are what `/proc/self/mountinfo` and `/proc/self/cgroup` say.
    """
    paths: dict[str, str] = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    found: dict[str, list[str]] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        kind, _, options = after.split()[:3]
        names = {"cgroup": options.split(","), "cgroup2": [""]}.get(kind, [])
        for name in set(names) & set(paths):
            found.setdefault(name, list(_down(point, root.rstrip("/"), paths[name])))
    return found


def find() -> Place:
    """Where groups can be made, limited and joined, found by trying. Raises OSError with the reason when that is nowhere."""
    found = paths_to_own_group(_read("/proc/self", "mountinfo"), _read("/proc/self", "cgroup"))
    problem = OSError("no control groups for memory and CPU are mounted")
    for version, controllers in reversed(CONTROLLERS.items()):
        place = {"version": version}
        for controller in controllers:
            for way in found.get("" if version == "2" else controller, ()):
                try:
                    place[controller] = _try(way, version)
                    break
                except OSError as error:
                    problem = error
        if len(place) > len(controllers):
            return place
    raise problem


def _try(way: str, version: str) -> str:
    """Make a group, join it in a forked process, and remove it; the directory for groups. Raises OSError."""
    if version == "2":
        missing = set(CONTROLLERS["2"]) - set(_read(way, "cgroup.controllers").split())
        if missing:
            raise OSError(f"{way} does not have the controllers {', '.join(sorted(missing))}")
        _hand_down(way)
    top = os.path.join(way, TOP)
    trial = os.path.join(top, f"trial-{os.urandom(8).hex()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(top)
    os.mkdir(trial)
    try:
        if version == "2":
            _hand_down(top)
        pid = os.fork()
        if pid == 0:
            try:
                _write(trial, "cgroup.procs", 0)
                os._exit(0)
            finally:
                os._exit(1)
        if os.waitpid(pid, 0)[1]:
            raise OSError(f"processes cannot be moved to {top}")
    finally:
        os.rmdir(trial)
    return top


def _hand_down(directory: str) -> None:
    """Enable the controllers for the groups below."""
    missing = set(CONTROLLERS["2"]) - set(_read(directory, "cgroup.subtree_control").split())
    if missing:
        _write(directory, "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(missing)))


def _down(point: str, root: str, path: str) -> Iterator[str]:
    yield point
    names = path.removeprefix(root).strip("/").split("/")
    # A group outside of what this process may see is written with dots.
    if path.startswith(f"{root}/") and names != [""] and ".." not in names:
        for count in range(1, len(names) + 1):
            yield os.path.join(point, *names[:count])


def _children(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []


def _table(directory: str, name: str) -> dict[str, int]:
    return {key: int(value) for key, value in map(str.split, _read(directory, name).splitlines())}


def _read(directory: str, name: str) -> str:
    with open(os.path.join(directory, name), encoding="ascii", errors="replace") as file:
        return file.read()


def _write(directory: str, name: str, value: str | int) -> None:
    with open(os.path.join(directory, name), "w", encoding="ascii") as file:
        file.write(str(value))
