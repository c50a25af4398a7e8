"""The command lines of the service's processes.

`pipeline up` starts these commands as child processes; `pipeline worker`, `api`, `beat` and `watch`, which Compose and
Kubernetes run, exec them. This module must import quickly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage
from workers.names import FLOWS, HOOKS, SHADOWS, TICKS, stage_queues

APP = "workers.app"


@dataclass(frozen=True, slots=True)
class WorkerKind:
    """A kind of Celery worker. `concurrency` counts child processes, or threads with the pool `threads`; None: a setting does
    (`concurrency_of`). `beside`: what else runs in its process."""

    queues: tuple[str, ...]
    concurrency: int | None
    pool: str = "prefork"
    beside: tuple[str, ...] = ()


WORKERS = {
    # A stage mostly waits for its plugins. None of its calls is without a deadline.
    "stages": WorkerKind(tuple(stage_queues()), None, "threads"),
    # A delivery mostly waits for its subscriber, and its call has a deadline: threads are enough.
    "hooks": WorkerKind((HOOKS,), 32, "threads"),
    # Advancing a run mostly waits for the database.
    "flows": WorkerKind((FLOWS,), 8, "threads"),
    "housekeeping": WorkerKind((TICKS,), 1),
    # Shadows are asked by a process of its own, which this one keeps.
    "shadows": WorkerKind((SHADOWS,), 1, "threads", ("--shadows",)),
}
"""The kinds of workers that serve one thing each; together every queue once."""

BACKGROUND = "background"
KINDS = {
    **WORKERS,
    # A delivery's call does not hold one of these threads, and the ticks have their own.
    BACKGROUND: WorkerKind((HOOKS, FLOWS, TICKS, SHADOWS), 16, "threads", ("--ticks", "--watch", "--shadows")),
}
"""All kinds of workers. `background` does in one process what all others but the stages do, with beat and the watcher."""

MOST_STAGE_WORKERS = 4

API_WORKERS = 2
API_THREADS = 8
"""Threads of each API process for requests; those that stream logs to followers and other readers, and those that wait for
events, are additional."""
KEEP_ALIVE_SECONDS = 75
"""How long the API keeps a connection open for another request: longer than the 60 s for which common proxies do."""


def stage_workers() -> int:
    """How many stage workers one machine runs unless more are asked for: one for each core, since a process uses one."""
    return min(os.cpu_count() or 1, MOST_STAGE_WORKERS)


def concurrency_of(kind: str) -> int:
    """How many tasks a worker of this kind runs at a time."""
    return KINDS[kind].concurrency or settings().stage_threads


def worker(kind: str, *, name: str = "", queues: Sequence[str] = (), concurrency: int = 0) -> list[str]:
    """The command of a worker. `name` is its node name without the host, by default its kind; `queues` and `concurrency`
    replace those of its kind."""
    of_kind = KINDS[kind]
    return python(
        "workers", APP, "worker",
        "-n", f"{name or kind}@%h",
        "-Q", ",".join(queues or of_kind.queues),
        "-c", str(concurrency or concurrency_of(kind)),
        f"--pool={of_kind.pool}", *of_kind.beside,
    )  # fmt: skip


def api(bind: str, *, log_followers: int, event_waiters: int, grace_seconds: int = 30) -> list[str]:
    """The command of the API. `bind` is an address (`HOST:PORT`) or an inherited socket (`fd://NUMBER`)."""
    return python(
        "gunicorn", f"--bind={bind}", f"--workers={API_WORKERS}", "--preload",
        "--worker-class=api.server.worker.BufferingWorker", f"--keep-alive={KEEP_ALIVE_SECONDS}",
        f"--threads={API_THREADS + 2 * log_followers + event_waiters}", f"--graceful-timeout={grace_seconds}",
        "--no-control-socket",
        # The worker's sockets do not block, and sendfile takes none that do not.
        "--no-sendfile",
        # Else a client on this machine could send SCRIPT_NAME and PATH_INFO as headers, and be routed by them.
        "--forwarder-headers=",
        "--worker-tmp-dir=/dev/shm", "api.wsgi:app",
    )  # fmt: skip


def beat(schedule: str) -> list[str]:
    """The command of beat, which stores the times of the last ticks in the file `schedule`."""
    return python("workers", APP, "beat", f"--schedule={schedule}")


def watcher() -> list[str]:
    """The command of the watcher."""
    return python("workers", APP, "watch")


def shadows() -> list[str]:
    """The command of the process that asks shadows (`workers.shadow_process`)."""
    return python("workers", APP, "shadows")


def alone(job_id: str, epoch: int, stage: Stage, holder: str) -> list[str]:
    """The command of a process that runs one stage of a job (`workers.alone`)."""
    return python("workers", APP, "alone", job_id, str(epoch), str(stage), holder)


def flower(address: str, port: int) -> list[str]:
    """The command of Flower; FLOWER_BASIC_AUTH in its environment is `USER:PASSWORD`."""
    return python(
        "celery", "-A", APP,
        "flower", f"--address={address}", f"--port={port}", "--max_tasks=5000", "--purge_offline_workers=300",
        "--persistent=False", "--conf=/dev/null",
    )  # fmt: skip


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module with this interpreter."""
    return [sys.executable, "-m", module, *arguments]
