"""Launches of single jobs, one after the other, each timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg2
import requests

from scripts.benchmarks.stand import JOB, Stand, a_token, wait_for

POLL_SECONDS = 0.0005
PAUSE_SECONDS = 0.02
"""A pause after each launch, in which the system finishes what it does behind it."""
WARM_UP = 20


@contextmanager
def launching(stand: Stand) -> Iterator[Callable[[], float]]:
    """A function that submits a job, waits until it has reached the cluster, and returns how many milliseconds that took."""
    with requests.Session() as client, closing(psycopg2.connect(stand.database_url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        client.headers["token"] = a_token()

        def launch() -> float:
            started = time.perf_counter()
            job_id = client.post(f"{stand.url}/v1/job", json=JOB).json()["payload"]["jobID"]

            def launched() -> bool:
                cursor.execute("SELECT stage = 'cluster' FROM jobs WHERE id = %s", (job_id,))
                return cursor.fetchone() == (True,)

            took = (wait_for(launched, "the launch", every=POLL_SECONDS) - started) * 1000
            time.sleep(PAUSE_SECONDS)
            return took

        yield launch
