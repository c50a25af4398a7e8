"""The service's own processes and what they are told: all of it is listed here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline_core.settings import settings
from pipeline_core.stages.stage import STAGES
from pipeline_up.service import Service

STAGE_QUEUES = ",".join(f"stages.{stage}" for stage in STAGES)

API_WORKERS = 2
# For requests; each follower of a log holds a thread of its own beside them.
API_THREADS = 8
STAGE_CONCURRENCY = 4
# A delivery mostly waits for its subscriber: threads are enough for that, and bound by the call's own deadline.
HOOK_CONCURRENCY = 32
# A step of a run mostly waits for the database.
FLOW_CONCURRENCY = 8
# A worker ends when its running tasks have. What is killed after this is found by its leases.
DRAIN_SECONDS = 40.0
GUNICORN_GRACE_SECONDS = 10


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to run: how many workers, for whom, and with which environment.

    `listener` is the file descriptor of the bound socket that the API serves, `api_ready` tells whether it does.
    """

    environment: Mapping[str, str]
    data_dir: Path
    listener: int
    api_ready: Callable[[], bool]
    stage_workers: int
    hook_workers: int

    def services(self) -> list[Service]:
        """Every process of the service but its database and its broker."""
        return [
            self._api(),
            *(
                self._worker(f"stages{number}", STAGE_QUEUES, STAGE_CONCURRENCY)
                for number in range(1, self.stage_workers + 1)
            ),
            *(
                self._worker(f"hooks{number}", "hooks", HOOK_CONCURRENCY, "--pool=threads")
                for number in range(1, self.hook_workers + 1)
            ),
            self._worker("flows", "flows", FLOW_CONCURRENCY, "--pool=threads"),
            self._worker("housekeeping", "ticks", 1),
            self._python("beat", "celery", "-A", "workers.app", "beat", f"--schedule={self.data_dir / 'run' / 'beat'}"),
            self._python("watcher", "workers.watch"),
        ]

    def _api(self) -> Service:
        return Service(
            name="api",
            argv=python(
                "gunicorn", f"--bind=fd://{self.listener}", f"--workers={API_WORKERS}", "--worker-class=gthread",
                f"--threads={API_THREADS + settings().log_followers}",
                f"--graceful-timeout={GUNICORN_GRACE_SECONDS}", "--no-control-socket", "api.wsgi:app",
            ),
            env=self.environment,
            ready=self.api_ready,
            pass_fds=(self.listener,),
            stop_seconds=GUNICORN_GRACE_SECONDS + 5,
        )  # fmt: skip

    def _worker(self, name: str, queues: str, concurrency: int, *more: str) -> Service:
        return Service(
            name=name,
            argv=python(
                "celery", "-A", "workers.app", "worker", "-n", f"{name}@%h", "-Q", queues, "-c", str(concurrency),
                "--without-gossip", "--without-mingle", "--loglevel=INFO", *more,
            ),
            env=self.environment,
            stop_seconds=DRAIN_SECONDS,
        )  # fmt: skip

    def _python(self, name: str, module: str, *arguments: str) -> Service:
        return Service(name=name, argv=python(module, *arguments), env=self.environment)


def python(module: str, *arguments: str) -> list[str]:
    """The command line of a module, run by this interpreter."""
    return [sys.executable, "-m", module, *arguments]
