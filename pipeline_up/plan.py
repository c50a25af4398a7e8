"""The processes that `pipeline up` starts, in the order of their start."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pipeline_core.operations import heartbeats
from pipeline_core.settings import settings
from pipeline_up.heartbeats import Heartbeats
from pipeline_up.service import Service, ready_at_once
from workers import processes

# A worker exits when its running tasks have ended. After this time it is killed, and its leases expire.
DRAIN_SECONDS = 40.0
GUNICORN_GRACE_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class ProcessPlan:
    """What to run: the number of workers of each kind, and the environment of all processes. `split`: hooks, flows, housekeeping,
    beat and the watcher have processes of their own; else they share one, `background`, which counts as a hook worker.

    `listener` is the file descriptor of the bound socket that the API serves; `api_ready` returns whether the API answers.
    """

    environment: Mapping[str, str]
    data_dir: Path
    listener: int
    api_ready: Callable[[], bool]
    stage_workers: int
    hook_workers: int
    split: bool = False
    heartbeats: Heartbeats = field(default_factory=Heartbeats)

    def services(self) -> list[Service]:
        """All processes of the service except its database and Redis."""
        return [
            self._api(),
            *(self.worker("stages", f"stages{number}") for number in range(1, self.stage_workers + 1)),
            *(self._split() if self.split else self._shared()),
        ]

    def _shared(self) -> list[Service]:
        return [self.worker(processes.BACKGROUND), *self._hook_workers(first=2)]

    def _split(self) -> list[Service]:
        return [
            *self._hook_workers(first=1),
            self.worker("flows"),
            self.worker("housekeeping"),
            self.worker("shadows"),
            self._service("beat", processes.beat(str(self.data_dir / "run" / "beat")), heartbeat=heartbeats.BEAT),
            self._service("watcher", processes.watcher()),
        ]

    def _hook_workers(self, first: int) -> list[Service]:
        return [self.worker("hooks", f"hooks{number}") for number in range(first, self.hook_workers + 1)]

    def _api(self) -> Service:
        return Service(
            name="api",
            argv=processes.api(
                f"fd://{self.listener}",
                log_followers=settings().log_followers,
                event_waiters=settings().event_waiters,
                grace_seconds=GUNICORN_GRACE_SECONDS,
            ),
            env=self.environment,
            ready=lambda seconds: self.api_ready(),
            pass_fds=(self.listener,),
            stop_seconds=GUNICORN_GRACE_SECONDS + 5,
        )

    def worker(self, kind: str, name: str = "") -> Service:
        """A worker of this kind, which is its name unless it has another one."""
        command = processes.worker(kind, name=name)
        name = name or kind
        return self._service(
            name, command, DRAIN_SECONDS, heartbeat=f"{heartbeats.WORKER}{name}@{socket.gethostname()}"
        )

    def _service(self, name: str, argv: Sequence[str], stop_seconds: float = 10.0, *, heartbeat: str = "") -> Service:
        """A process that is ready when it has written its heartbeat; without the name of one, as soon as it runs."""
        ready = partial(self.heartbeats.written, heartbeat) if heartbeat else ready_at_once
        return Service(name=name, argv=argv, env=self.environment, ready=ready, stop_seconds=stop_seconds)
