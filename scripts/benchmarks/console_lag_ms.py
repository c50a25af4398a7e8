"""From a change of a job until each of the readers that wait for the feed has it, as many as consoles may be open."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import requests

from scripts.benchmarks.results import Result, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, a_token, standing
from scripts.benchmarks.waiters import waiting

NAME = "console_lag_ms"
GOAL_P95 = 1000.0
WAITERS = 50
CHANGES_PER_SECOND = 20
CLIENTS = 4


def measure(scale: Scale) -> Result:
    """Jobs are submitted and stopped at an even pace, over HTTP. `occurredAt`, from which a lag counts, is before the commit."""
    pairs = max(int(CHANGES_PER_SECOND * scale.seconds * scale.rounds) // 2, 1)
    with standing() as stand, requests.Session() as client:
        stand.start_service("api")
        token = client.headers["token"] = a_token()
        _change(stand.url, token, CLIENTS)
        with waiting(stand.url, token, WAITERS) as lags:
            seconds = _change(stand.url, token, pairs)
            latest = client.get(f"{stand.url}/v1/events", params={"after": "latest"})
            found = lags(int(latest.headers["X-Next-Cursor"]))
    expected = 2 * pairs * WAITERS
    if len(found) != expected:
        raise RuntimeError(f"{WAITERS} readers had {len(found)} changes in all; there were {expected}")
    value = spread(found)
    return Result(
        name=NAME,
        value=value["p95"],
        unit="ms",
        goal=f"p95 under {GOAL_P95:g} ms",
        met=value["p95"] < GOAL_P95,
        samples=len(found),
        more={"lag_ms": value, "waiters": WAITERS, "changes_per_second": 2 * pairs / seconds},
    )


def _change(url: str, token: str, pairs: int) -> float:
    """Submit so many jobs, and stop each with the next change; the seconds that it took. Whoever is late does not wait."""
    started = time.perf_counter()

    def pause(number: int) -> None:
        time.sleep(max(started + number / CHANGES_PER_SECOND - time.perf_counter(), 0))

    def submit_and_stop(number: int) -> None:
        with requests.Session() as client:
            client.headers["token"] = token
            pause(2 * number)
            submitted = client.post(f"{url}/v1/job", json=JOB)
            submitted.raise_for_status()
            pause(2 * number + 1)
            client.put(f"{url}/v1/job/stop/{submitted.json()['payload']['jobID']}").raise_for_status()

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(submit_and_stop, range(pairs)))
    return time.perf_counter() - started
