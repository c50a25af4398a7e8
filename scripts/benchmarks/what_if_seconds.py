"""Matching a feature against 100,000 stored jobs, and what that costs those who submit meanwhile."""

from __future__ import annotations

import threading
import time
from typing import Any

import requests

from pipeline_core.jobs.what_if import MOST_JOBS
from scripts.benchmarks.results import Result, percentile
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, a_token, standing
from scripts.benchmarks.stored import fill

NAME = "what_if_seconds"
GOAL_SECONDS = 5.0
GOAL_RATIO = 2.0

FEATURE: dict[str, Any] = {
    "name": "quota",
    "author": "bench",
    "jobSelector": {
        "conditions": [
            {"name": "user", "key": "userID", "expect": "/^user-[0-4]/"},
            {"name": "kind", "key": "jobKind", "expect": "TFJob"},
            {"name": "project", "key": "labels.project", "expect": ".*"},
        ],
        "expression": "user && !kind || project",
    },
    "plugins": [{"pluginType": type, "callAddress": "http://127.0.0.1:9/"} for type in ("AccessGate", "LifeHook")],
}


class Submitter:
    """Submits one job after the other until it is stopped; `took` has the milliseconds of each request."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self.took: list[float] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Submitter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with requests.Session() as client:
            client.headers["token"] = a_token()
            while not self._stop.is_set():
                started = time.perf_counter()
                client.post(f"{self._url}/v1/job", json=JOB).raise_for_status()
                self.took.append((time.perf_counter() - started) * 1000)


def measure(scale: Scale) -> Result:
    """Some rounds of the request; the value is the slowest."""
    count = min(scale.stored, MOST_JOBS)
    with standing() as stand, requests.Session() as client:
        fill(stand, count)
        stand.start_service("api")
        client.headers["token"] = a_token()
        with Submitter(stand.url) as alone:
            time.sleep(scale.seconds)
        took = []
        with Submitter(stand.url) as beside:
            for _ in range(scale.rounds):
                started = time.perf_counter()
                client.post(f"{stand.url}/v1/features/what-if", json=FEATURE).raise_for_status()
                took.append(time.perf_counter() - started)
    before, meanwhile = percentile(alone.took, 95), percentile(beside.took, 95)
    return Result(
        name=NAME,
        value=max(took),
        unit="s",
        goal=f"at most {GOAL_SECONDS:g} s for {MOST_JOBS:,} jobs, p95 of submissions meanwhile at most {GOAL_RATIO:g} times",
        met=max(took) <= GOAL_SECONDS and meanwhile <= GOAL_RATIO * before,
        samples=scale.rounds,
        more={"jobs": count, "submit_p95_ms": meanwhile, "submit_p95_ms_alone": before},
    )
