"""Submissions over HTTP; against the smallest Flask view, on the same server, that stores a row and sends a message."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from itertools import chain

import psycopg2

from pipeline_up.listener import Listener
from scripts.benchmarks.baselines.table import CREATE
from scripts.benchmarks.results import Result, percentile, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, a_token, standing
from workers.processes import API_THREADS, API_WORKERS

NAME = "submit_per_second"
GOAL = 0.7
GOAL_P99 = 2.0
CONNECTIONS = 8


def measure(scale: Scale) -> Result:
    """Send requests to the one and to the other in turn. No worker runs: what they do is another row."""
    with standing() as stand, closing(Listener("127.0.0.1", 0)) as listener:
        with closing(psycopg2.connect(stand.database_url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(CREATE)
        stand.start_service("api")
        words = {
            "api.wsgi:app": "scripts.benchmarks.baselines.bare_flask:app",
            f"--bind=fd://{stand.plan.listener}": f"--bind=fd://{listener.fileno}",
        }
        bare = stand.like("api", "bare-flask", words)
        stand.start(replace(bare, ready=lambda seconds: listener.answers("/readyz"), pass_fds=(listener.fileno,)))
        token = a_token()
        urls = (f"{stand.url}/v1/job", f"{listener.url}/v1/job")
        for url in urls:
            submit_over_http(url, token, scale.seconds / 2)
        rounds = [[submit_over_http(url, token, scale.seconds) for url in urls] for _ in range(scale.rounds)]
    (rates, took), (bare_rates, bare_took) = (
        ([rate for rate, _ in loads], list(chain.from_iterable(took for _, took in loads)))
        for loads in zip(*rounds, strict=True)
    )
    value, baseline = statistics.median(rates), statistics.median(bare_rates)
    p99_ratio = percentile(took, 99) / percentile(bare_took, 99)
    return Result(
        name=NAME,
        value=value,
        unit="requests/s",
        baseline=baseline,
        goal=f"ratio at least {GOAL:g}, that of p99 at most {GOAL_P99:g}",
        met=value / baseline >= GOAL and p99_ratio <= GOAL_P99,
        samples=len(took),
        more={
            "p99_ratio": p99_ratio,
            "latency_ms": spread(took),
            "baseline_latency_ms": spread(bare_took),
            "rounds": list(zip(rates, bare_rates, strict=True)),
            "connections": CONNECTIONS,
            "server": {"workers": API_WORKERS, "threads": API_THREADS},
        },
    )


def submit_over_http(url: str, token: str, seconds: float) -> tuple[float, list[float]]:
    """Requests a second, and the milliseconds of each."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.benchmarks.load", url, token, str(CONNECTIONS), str(seconds)],
        input=json.dumps(JOB).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    took, *each = json.loads(done.stdout)
    return len(each) / took, each
