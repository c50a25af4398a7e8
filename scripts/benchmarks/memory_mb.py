"""Memory of a process of the API, and of a worker; against an idle Flask application on gunicorn's threads, and an idle Celery
worker in the same pool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import requests

from pipeline_up import os_processes
from pipeline_up.listener import Listener
from scripts.benchmarks.drain import jobs_per_second
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, Stand, a_token, standing

NAME = "memory_mb"
GOAL = 60.0
IDLE_APP = "scripts.benchmarks.baselines.idle_flask:app"


def measure(scale: Scale) -> Result:
    """The API and the worker have done some work before; the idle ones none."""
    with standing() as stand, closing(Listener("127.0.0.1", 0)) as listener:
        stand.start_service("api", *stand.stage_workers)
        words = {
            "api.wsgi:app": IDLE_APP,
            f"--bind=fd://{stand.plan.listener}": f"--bind=fd://{listener.fileno}",
            # The class that the API's own is made of: that one imports parts of the service.
            "--worker-class=api.server.worker.BufferingWorker": "--worker-class=gthread",
        }
        idle = stand.like("api", "idle-flask", words)
        stand.start(replace(idle, ready=lambda seconds: listener.answers("/readyz"), pass_fds=(listener.fileno,)))
        stand.start(stand.bare_worker(forked=False))
        jobs_per_second(stand, scale.jobs, JOB)
        with requests.Session() as client:
            client.headers["token"] = a_token()
            for _ in range(scale.jobs):
                client.post(f"{stand.url}/v1/job", json=JOB).raise_for_status()
        pairs = {"api": ("api.wsgi:app", IDLE_APP), "worker": ("stages1@%h", "bare@%h")}
        found = {name: [_memory(stand, word) for word in pair] for name, pair in pairs.items()}
    above = {name: ours["largest"] - bare["largest"] for name, (ours, bare) in found.items()}
    worst = max(above, key=lambda name: above[name])
    ours, bare = found[worst]
    return Result(
        name=NAME,
        value=ours["largest"],
        unit="MB",
        baseline=bare["largest"],
        goal=f"API and worker each at most {GOAL:g} MB more",
        met=all(value <= GOAL for value in above.values()),
        samples=1,
        more={
            "above_mb": above,
            **{name: {"service_mb": ours, "idle_mb": bare} for name, (ours, bare) in found.items()},
        },
    )


def _memory(stand: Stand, word: str) -> dict[str, float]:
    """What the largest process with this word in its command line holds, and what all of them share out between them."""
    held = [_megabytes(pid) for pid in _processes(stand, word)]
    return {"largest": max(rss for rss, _ in held), "together": sum(pss for _, pss in held)}


def _processes(stand: Stand, word: str) -> Iterator[int]:
    for process in os_processes.all_processes():
        of_stand = os_processes.environment(process.pid).get("PIPELINE_DATA_DIR") == str(stand.plan.data_dir)
        if of_stand and word in os_processes.command_line(process.pid):
            yield process.pid


def _megabytes(pid: int) -> tuple[float, float]:
    """Resident memory, and the process's share of it where pages are shared; see proc_pid_smaps(5)."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kilobytes = {name: int(number) for name, number in re.findall(r"^(Rss|Pss): +(\d+) kB$", text, re.M)}
    return kilobytes["Rss"] / 1024, kilobytes["Pss"] / 1024
