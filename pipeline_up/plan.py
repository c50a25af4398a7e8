"""The processes that `pipeline up` starts, in the order of their start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline_core.settings import settings
from pipeline_up.service import Service
from workers import processes

# A worker exits when its running tasks have ended. After this time it is killed, and its leases expire.
DRAIN_SECONDS = 40.0
GUNICORN_GRACE_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class ProcessPlan:
    """What to run: the number of workers of each kind, and the environment of all processes.

    `listener` is the file descriptor of the bound socket that the API serves; `api_ready` returns whether the API answers.
    """

    environment: Mapping[str, str]
    data_dir: Path
    listener: int
    api_ready: Callable[[], bool]
    stage_workers: int
    hook_workers: int

    def services(self) -> list[Service]:
        """All processes of the service except its database and Redis."""
        return [
            self._api(),
            *(self._worker("stages", f"stages{number}") for number in range(1, self.stage_workers + 1)),
            *(self._worker("hooks", f"hooks{number}") for number in range(1, self.hook_workers + 1)),
            self._worker("flows"),
            self._worker("housekeeping"),
            self._service("beat", processes.beat(str(self.data_dir / "run" / "beat"))),
            self._service("watcher", processes.watcher()),
        ]

    def _api(self) -> Service:
        return Service(
            name="api",
            argv=processes.api(
                f"fd://{self.listener}",
                log_followers=settings().log_followers,
                grace_seconds=GUNICORN_GRACE_SECONDS,
            ),
            env=self.environment,
            ready=self.api_ready,
            pass_fds=(self.listener,),
            stop_seconds=GUNICORN_GRACE_SECONDS + 5,
        )

    def _worker(self, kind: str, name: str = "") -> Service:
        return self._service(name or kind, processes.worker(kind, name=name), DRAIN_SECONDS)

    def _service(self, name: str, argv: Sequence[str], stop_seconds: float = 10.0) -> Service:
        return Service(name=name, argv=argv, env=self.environment, stop_seconds=stop_seconds)
