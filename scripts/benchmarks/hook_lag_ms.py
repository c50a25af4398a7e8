"""From a change of state until its subscriber is called, with so many changes a second that a worker is kept busy."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import requests

from pipeline_core.plugins.types import PluginType
from scripts.benchmarks.drain import submit_jobs
from scripts.benchmarks.results import Result, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, plugin_server, register, standing, wait_for

NAME = "hook_lag_ms"
GOAL_P50 = 50.0
GOAL_P99 = 500.0
EVENTS_PER_SECOND = 200
SUBSCRIBER_MILLISECONDS = 1
SUBMITTERS = 4


def measure(scale: Scale) -> Result:
    """Submit at an even pace: each submission is a change of state. The subscriber reports how late it was called."""
    count = max(int(EVENTS_PER_SECOND * scale.seconds * scale.rounds), 1)
    with standing() as stand, plugin_server(stand, SUBSCRIBER_MILLISECONDS) as url:
        register({"pluginType": PluginType.LIFE_HOOK, "callAddress": f"{url}/{PluginType.LIFE_HOOK}"})
        stand.start_service("hooks1", "housekeeping", "beat")
        with requests.Session() as client:

            def lags() -> list[float]:
                return list(client.get(f"{url}/lags").json())

            _submit_evenly(warm_up := EVENTS_PER_SECOND // 4)
            wait_for(lambda: len(lags()) >= warm_up, "the first calls")
            seconds = _submit_evenly(count)
            wait_for(lambda: len(lags()) >= warm_up + count, "all calls")
            taken = lags()[warm_up:]
    value = spread(taken)
    return Result(
        name=NAME,
        value=value["p50"],
        unit="ms",
        goal=f"p50 under {GOAL_P50:g} ms, p99 under {GOAL_P99:g} ms",
        met=value["p50"] < GOAL_P50 and value["p99"] < GOAL_P99,
        samples=len(taken),
        more={"lag_ms": value, "events_per_second": count / seconds, "asked_per_second": EVENTS_PER_SECOND},
    )


def _submit_evenly(count: int) -> float:
    """Seconds that it took. Whoever is late does not wait, so that the pace is kept on the whole."""
    started = time.perf_counter()

    def submit(number: int) -> None:
        time.sleep(max(started + number / EVENTS_PER_SECOND - time.perf_counter(), 0))
        submit_jobs(1, JOB)

    with ThreadPoolExecutor(SUBMITTERS) as pool:
        list(pool.map(submit, range(count)))
    return time.perf_counter() - started
