"""The process that runs one replica attempt: its containers, from the first to the last process.

A keeper is forked by the supervisor and communicates with it through two pipes. It reads the orders `t` (stop) and `d`
(deadline); the end of that pipe means that the supervisor is dead, and then it kills everything at once. It writes events,
lines of JSON; the last one has a final state, and by then no process of the replica is left.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time

from pipeline_core.clusters.local import linux, process
from pipeline_core.clusters.local.cgroups import group_of
from pipeline_core.clusters.local.files import BOUND, RESULTS
from pipeline_core.clusters.local.journal import FAILED, RUNNING, STOPPED, SUCCEEDED
from pipeline_core.clusters.local.logfile import LogFile
from pipeline_core.clusters.local.mounts import BindMount
from pipeline_core.clusters.local.process import compose, expand, taskset_variables
from pipeline_core.common.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from pipeline_core.clusters.local.files import AttemptFiles
    from pipeline_core.clusters.local.journal import Fields, Key

STOP: Final = b"t"
DEADLINE: Final = b"d"
FIRST_BACKOFF_SECONDS = 1.0
LAST_BACKOFF_SECONDS = 60.0
LONGEST_ERROR = 4096
"""Characters of an error that go into a container's log: its pipe, which nobody reads meanwhile, must hold them."""


class Interrupted(Exception):
    """The replica has to end before its containers do."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason


class StartedContainer:
    """One container of the plan, with its process and how that ended."""

    def __init__(self, plan: Mapping[str, Any], log: LogFile) -> None:
        self.plan = plan
        self.log = log
        self.pid = 0
        self.pipe = -1
        self.code: int | None = None
        self.reason = ""
        self.backoff = FIRST_BACKOFF_SECONDS
        self.restart_at: float | None = None
        self.oom_kills = 0

    @property
    def counts(self) -> bool:
        return not self.plan["sidecar"]

    @property
    def over(self) -> bool:
        return self.code is not None and self.restart_at is None


class Keeper:
    """Runs the containers of one replica attempt; `orders` and `events` are the pipes from and to the supervisor."""

    def __init__(self, files: AttemptFiles, plan: Mapping[str, Any], key: Key, orders: int, events: int) -> None:
        self._files = files
        self._plan = plan
        self._role = plan["roles"][key[0]]
        self._key = key
        self._orders = orders
        self._events = events
        self._wake, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._work = files.at("work", str(key))
        os.makedirs(self._work, exist_ok=True)
        self._containers: list[StartedContainer] = []
        self._group = group_of(plan, key)
        self._interrupted = False
        self._restarts = 0
        seconds = self._role["deadline"]
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def run(self) -> None:
        """Run the replica to its end and report how it ended."""
        os.setsid()
        linux.become_subreaper()
        state, reason = "", ""
        try:
            self._run_all()
        except Interrupted as interruption:
            state, reason = interruption.state, interruption.reason
            self._interrupted = True
        self._terminate()
        process.end_children()
        for container in self._containers:
            self._drain(container)
            container.log.close()
        if self._group is not None:
            self._group.remove()
        self._report({**self._ending(state, reason), "finished": time.time()})

    def _run_all(self) -> None:
        for plan in self._role["init"]:
            container = self._begin(plan)
            if container.counts:
                self._pump_until_over([container])
                if container.code != 0:
                    return
        main = [self._begin(plan) for plan in self._role["containers"]]
        self._report(
            {"state": RUNNING, "reason": "", "pid": main[0].pid, "keeper": os.getpid(), "started": time.time()}
        )
        self._pump_until_over([container for container in main if container.counts])

    def _begin(self, plan: Mapping[str, Any]) -> StartedContainer:
        path = self._files.at("logs", f"{self._key}.{plan['name']}.log")
        container = StartedContainer(plan, LogFile(path, self._plan["logLimit"]))
        self._containers.append(container)
        self._start(container)
        return container

    def _start(self, container: StartedContainer) -> None:
        plan = container.plan
        environment = self._environment(plan)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reading, False)
        container.pipe, container.code, container.restart_at = reading, None, None
        root = os.path.join(self._work, f".root-{plan['name']}")
        try:
            mounts = [self._mount(mount) for mount in plan["mounts"]]
            mounts += self._results(plan["name"], mounts)
            if mounts:
                os.makedirs(root, exist_ok=True)
            container.pid = process.start(
                [expand(word, environment) for word in plan["argv"]],
                environment,
                plan["directory"] or self._work,
                writing,
                root,
                mounts,
                self._make_group(container),
            )
        except (process.StartError, OSError) as error:
            write_all(writing, f"{error}"[:LONGEST_ERROR].encode() + b"\n")
            container.code = error.code if isinstance(error, process.StartError) else process.NOT_EXECUTABLE
            container.reason = "StartError"
            raise Interrupted(FAILED, "StartError") from None
        finally:
            os.close(writing)

    def _make_group(self, container: StartedContainer) -> list[str]:
        if self._group is None:
            return []
        name = container.plan["name"]
        groups = self._group.make(name, container.plan["limits"])
        container.oom_kills = self._group.oom_kills(name)
        return groups

    def _environment(self, plan: Mapping[str, Any]) -> dict[str, str]:
        role, index, attempt = self._key
        whole = self._plan
        sizes = {name: role["replicas"] for name, role in whole["roles"].items()}
        fields = {
            "metadata.name": f"{whole['job']}-{role}-{whole['attempt']}-{attempt}-{index}",
            "metadata.namespace": whole["namespace"],
            "status.podIP": "127.0.0.1",
            "status.hostIP": "127.0.0.1",
        }
        base = {**whole["base"], "HOME": self._work}
        return compose(
            taskset_variables(whole["namespace"], whole["name"], role, index, sizes), base, plan["env"], fields
        )

    def _mount(self, plan: Mapping[str, Any]) -> BindMount:
        source = plan["source"] or self._files.at("volumes", str(self._key), plan["volume"])
        source = os.path.join(source, plan["subPath"])
        os.makedirs(source, exist_ok=True)
        return BindMount(source, plan["target"], read_only=plan["readOnly"])

    def _results(self, container: str, mounts: Sequence[BindMount]) -> list[BindMount]:
        """Fresh files for the results of a container; where it has a volume of its own at such a place, that one stays."""
        if self._plan.get("results") != BOUND:
            return []
        found = [
            BindMount(self._files.result(self._key, container, name), f"/{name}", file=True)
            for name in RESULTS
            if not any(mount.covers(f"/{name}") for mount in mounts)
        ]
        for mount in found:
            os.makedirs(os.path.dirname(mount.source), exist_ok=True)
            os.close(
                os.open(mount.source, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
            )
        return found

    def _pump_until_over(self, containers: Sequence[StartedContainer]) -> None:
        while not all(container.over for container in containers):
            self._pump(None)

    def _pump(self, until: float | None, *, listening: bool = True) -> None:
        """Wait for output, an ended process, an order or a timer, at most until `until`, and handle it.

        Raises Interrupted, but not with `listening` false.
        """
        poll = select.poll()
        for fd in [
            self._wake,
            self._orders,
            *(container.pipe for container in self._containers if container.pipe >= 0),
        ]:
            poll.register(fd, select.POLLIN)
        times = [until, *(container.log.due for container in self._containers)]
        if listening:
            times += [self._deadline, *(container.restart_at for container in self._containers)]
        nearest = min((moment for moment in times if moment is not None), default=None)
        wait = None if nearest is None else min(max(0.0, nearest - time.monotonic()) * 1000 + 1, linux.LONGEST_POLL)
        ready = {fd for fd, _ in poll.poll(wait)}
        for container in self._containers:
            if container.pipe in ready:
                self._read(container)
            container.log.write_open()
        if self._wake in ready:
            os.read(self._wake, 4096)
            self._reap()
        if self._orders in ready:
            self._read_order(listening)
        if listening:
            self._restart_due()
            if self._deadline is not None and time.monotonic() >= self._deadline:
                raise Interrupted(FAILED, "DeadlineExceeded")

    def _read_order(self, listening: bool) -> None:
        order = os.read(self._orders, 1)
        if not order:
            raise BrokenPipeError
        if listening:
            if order == DEADLINE:
                raise Interrupted(FAILED, "DeadlineExceeded")
            raise Interrupted(STOPPED, "Stopped")

    def _reap(self) -> None:
        running = {container.pid: container for container in self._containers if container.pid}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in running:
                self._ended(running[pid], process.exit_code(status))

    def _ended(self, container: StartedContainer, code: int) -> None:
        if not self._interrupted:
            process.signal_group(container.pid, signal.SIGKILL)
            self._drain(container)
        container.pid, container.code = 0, code
        container.reason = self._reason(container) if code else ""
        if self._role["restart"] == "OnFailure" and code:
            container.restart_at = time.monotonic() + container.backoff
            container.backoff = min(container.backoff * 2, LAST_BACKOFF_SECONDS)

    def _reason(self, container: StartedContainer) -> str:
        if self._group is None or self._group.oom_kills(container.plan["name"]) == container.oom_kills:
            return "Error"
        return "OOMKilled"

    def _restart_due(self) -> None:
        for container in self._containers:
            if container.restart_at is not None and time.monotonic() >= container.restart_at:
                self._start(container)
                if container.counts:
                    self._restarts += 1
                    self._report({"restarts": self._restarts})

    def _read(self, container: StartedContainer) -> None:
        if not container.log.take(container.pipe):
            os.close(container.pipe)
            container.pipe = -1

    def _drain(self, container: StartedContainer) -> None:
        if container.pipe >= 0:
            container.log.drain(container.pipe)
            os.close(container.pipe)
            container.pipe = -1
        container.log.flush()

    def _terminate(self) -> None:
        """Send SIGTERM to what still runs, wait for the grace time, then kill it.

        Where the containers ended by themselves, only sidecars are waited for; after an interruption, all processes are.
        """
        groups = {container.pid for container in self._containers}
        for container in self._containers:
            container.restart_at = None
            self._signal(container, signal.SIGTERM)
        if self._interrupted:
            process.signal_others(signal.SIGTERM, groups)
        until = time.monotonic() + self._role["grace"]
        while self._anything_runs() and time.monotonic() < until:
            self._pump(until, listening=False)
        for container in self._containers:
            self._signal(container, signal.SIGKILL)
        while self._running():
            self._pump(None, listening=False)

    def _signal(self, container: StartedContainer, number: int) -> None:
        if container.pid:
            process.signal_group(container.pid, number)

    def _anything_runs(self) -> bool:
        return process.has_children() if self._interrupted else self._running()

    def _running(self) -> bool:
        return any(container.pid for container in self._containers)

    def _ending(self, state: str, reason: str) -> Fields:
        """The last event: how the replica ended. State and reason are those of an interruption, if there was one."""
        failed = [container for container in self._containers if container.counts and container.code]
        # Containers that were ended because another one could not be started are not the cause.
        failed.sort(key=lambda container: container.reason != "StartError")
        if not failed:
            return {"state": state or SUCCEEDED, "reason": reason, "exit": None if state else 0}
        first = failed[0]
        return {
            "state": state or FAILED,
            "reason": reason or first.reason,
            "exit": first.code,
            "diagnostics": first.log.tail if state != STOPPED else "",
        }

    def _report(self, fields: Fields) -> None:
        write_all(self._events, json.dumps(fields).encode() + b"\n")
