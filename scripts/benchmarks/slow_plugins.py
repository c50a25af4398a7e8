"""Jobs that a slow gate matches, until all have ended, and how long somebody else's job waits meanwhile; against the time that
the calls would take with every slot in use."""

from __future__ import annotations

import math
import statistics
import time
from contextlib import closing

import psycopg2

from pipeline_core.plugins.types import PluginType
from scripts.benchmarks.drain import submit_jobs
from scripts.benchmarks.launches import WARM_UP, launching
from scripts.benchmarks.results import Result, spread
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, plugin_server, register, standing

NAME = "slow_plugins"
SLOTS = 128
"""Plugin calls that the stage workers of an installation are to make at a time."""
GOAL = 2.0
GOAL_DELAY_MILLISECONDS = 100.0
TIMEOUT_SECONDS = 60
SLOW = {**JOB, "userID": "slow", "header": {"type": "slow"}}
MATCHED = {"conditions": [{"name": "slow", "key": "type", "expect": "slow"}], "expression": "slow"}


def measure(scale: Scale) -> Result:
    return measure_gate_of(scale.slow_seconds, NAME, scale)


def measure_gate_of(gate_seconds: float, name: str, scale: Scale) -> Result:
    """Launch another user's jobs one after the other, first alone, then while the slow ones are on their way."""
    with standing() as stand, plugin_server(stand, gate_seconds * 1000) as url:
        gate = {
            "pluginType": PluginType.ACCESS_GATE,
            "callAddress": f"{url}/{PluginType.ACCESS_GATE}",
            "timeoutSeconds": TIMEOUT_SECONDS,
        }
        register({**gate, "jobSelector": MATCHED})
        stand.start_service()
        with (
            launching(stand) as launch,
            closing(psycopg2.connect(stand.database_url)) as connection,
            connection.cursor() as cursor,
        ):
            connection.autocommit = True

            def slow_ones_left() -> bool:
                cursor.execute("SELECT 1 FROM jobs WHERE user_id = 'slow' AND finished_at IS NULL LIMIT 1")
                return cursor.fetchone() is not None

            alone = [launch() for _ in range(WARM_UP + scale.samples)][WARM_UP:]
            started = time.perf_counter()
            submit_jobs(scale.slow_jobs, SLOW)
            meanwhile = []
            while slow_ones_left():
                meanwhile.append(launch())
            seconds = time.perf_counter() - started
            cursor.execute("SELECT count(*) FROM jobs WHERE state <> 'succeeded'")
            (wrong,) = cursor.fetchone() or (0,)
    if wrong:
        raise RuntimeError(f"{wrong} jobs did not succeed")
    ideal = math.ceil(scale.slow_jobs / SLOTS) * gate_seconds
    delay = max(meanwhile) - statistics.median(alone)
    return Result(
        name=name,
        value=seconds,
        unit="s",
        baseline=ideal,
        goal=f"ratio at most {GOAL:g}, others' jobs at most {GOAL_DELAY_MILLISECONDS:g} ms later",
        met=seconds / ideal <= GOAL and delay <= GOAL_DELAY_MILLISECONDS,
        samples=scale.slow_jobs,
        more={
            "gate_seconds": gate_seconds,
            "slots": SLOTS,
            "others_delay_ms": delay,
            "others_ms": spread(meanwhile),
            "others_alone_ms": spread(alone),
        },
    )
