"""From the submission to the launch, with 20,000 ended jobs stored; against the same with none."""

from __future__ import annotations

import time
from contextlib import closing

import psycopg2
import requests

from scripts.benchmarks.launch_latency_ms import PAUSE_SECONDS, WARM_UP, launch_milliseconds
from scripts.benchmarks.results import Result, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import a_token, standing
from scripts.benchmarks.stored import fill

NAME = "launch_ms_20000_ended"
ENDED = 20_000
GOAL = 1.2


def measure(scale: Scale) -> Result:
    """Submit jobs one by one, each when the one before is in the cluster: first with none stored, then with ENDED of them."""
    bare, took = (_launches(scale.samples, stored) for stored in (0, ENDED))
    value, baseline = spread(took), spread(bare)
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


def _launches(samples: int, stored: int) -> list[float]:
    """How long each launch took, in ms, on a stand with so many jobs."""
    with standing() as stand:
        if stored:
            fill(stand, stored)
        stand.start_service()
        with requests.Session() as client, closing(psycopg2.connect(stand.database_url)) as connection:
            connection.autocommit = True
            client.headers["token"] = a_token()
            took = []
            for _ in range(WARM_UP + samples):
                took.append(launch_milliseconds(client, stand.url, connection.cursor()))
                time.sleep(PAUSE_SECONDS)
    return took[WARM_UP:]
