"""From the submission to the launch on a system that does nothing else; against the round trip of a bare Celery task."""

from __future__ import annotations

import time
from contextlib import closing

import psycopg2
import requests
from psycopg2.extensions import cursor as Cursor

from scripts.benchmarks.results import Result, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, a_token, standing, wait_for

NAME = "launch_latency_ms"
GOAL = 4.0
POLL_SECONDS = 0.0005
PAUSE_SECONDS = 0.02
WARM_UP = 20


def measure(scale: Scale) -> Result:
    """Submit a job and wait until it is in the cluster, run a task and wait for its result, and so on."""
    with standing() as stand:
        # Its broker is the stand's.
        from scripts.benchmarks.baselines.bare_celery import answer

        stand.start_service()
        stand.start(stand.bare_worker())
        with (
            requests.Session() as client,
            closing(psycopg2.connect(stand.database_url)) as connection,
        ):
            connection.autocommit = True
            client.headers["token"] = a_token()
            took, bare = [], []
            for _ in range(WARM_UP + scale.samples):
                took.append(launch_milliseconds(client, stand.url, connection.cursor()))
                time.sleep(PAUSE_SECONDS)
                started = time.perf_counter()
                answer.delay().get()
                bare.append((time.perf_counter() - started) * 1000)
                time.sleep(PAUSE_SECONDS)
    value, baseline = (spread(values[WARM_UP:]) for values in (took, bare))
    return Result(
        name=NAME,
        value=value["p50"],
        unit="ms",
        baseline=baseline["p50"],
        goal=f"ratio at most {GOAL:g}",
        met=value["p50"] / baseline["p50"] <= GOAL,
        samples=scale.samples,
        more={"latency_ms": value, "baseline_latency_ms": baseline},
    )


def launch_milliseconds(client: requests.Session, url: str, cursor: Cursor) -> float:
    """Milliseconds until the job that is submitted now has reached the cluster."""

    def launched() -> bool:
        cursor.execute("SELECT stage = 'cluster' FROM jobs WHERE id = %s", (job_id,))
        return cursor.fetchone() == (True,)

    started = time.perf_counter()
    job_id = client.post(f"{url}/v1/job", json=JOB).json()["payload"]["jobID"]
    return (wait_for(launched, "the launch", every=POLL_SECONDS) - started) * 1000
