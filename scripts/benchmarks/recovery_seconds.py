"""A stage worker that is killed while it makes as many calls as it may, until all jobs have ended that it held: by the worker
that is left, which finds them when their leases end."""

from __future__ import annotations

import time
from contextlib import closing

import psutil
import psycopg2

from pipeline_core.plugins.types import PluginType
from scripts.benchmarks import cpu
from scripts.benchmarks.drain import submit_jobs
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, plugin_server, register, standing, wait_for

NAME = "recovery_seconds"
MOST_JOBS = 42
"""As many as one worker runs at a time when their plugin is slow: whichever takes them, none waits for a place."""
GOAL_SECONDS = 15.0


def measure(scale: Scale) -> Result:
    """Kill the stage worker that holds the most jobs as soon as every job is held by one."""
    jobs = min(scale.slow_jobs, MOST_JOBS)
    with standing() as stand, plugin_server(stand, scale.slow_seconds * 1000) as url:
        register({"pluginType": PluginType.ACCESS_GATE, "callAddress": f"{url}/{PluginType.ACCESS_GATE}"})
        stand.start_service()
        with closing(psycopg2.connect(stand.database_url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True

            def count(condition: str, *values: str) -> int:
                cursor.execute(f"SELECT count(*) FROM jobs LEFT JOIN steps ON job_id = id WHERE {condition}", values)
                (found,) = cursor.fetchone() or (0,)
                return int(found)

            submit_jobs(jobs, JOB)
            wait_for(lambda: count("lease_owner IS NULL AND state = 'waiting'") == 0, "the calls of all jobs")
            held = {worker: count("lease_owner LIKE %s", f"{worker}@%") for worker in stand.stage_workers}
            killed_worker = max(held, key=held.__getitem__)
            _kill(killed_worker)
            killed = time.perf_counter()
            seconds = wait_for(lambda: count("finished_at IS NULL") == 0, "the jobs to end") - killed
            wrong = count("state <> 'succeeded'")
    if wrong:
        raise RuntimeError(f"{wrong} jobs did not succeed")
    return Result(
        name=NAME,
        value=seconds,
        unit="s",
        goal=f"at most {GOAL_SECONDS:g} s and the gate's time",
        met=seconds - scale.slow_seconds <= GOAL_SECONDS,
        samples=held[killed_worker],
        more={"gate_seconds": scale.slow_seconds, "jobs": jobs},
    )


def _kill(worker: str) -> None:
    (process,) = (child for child in psutil.Process().children() if cpu.name(child) == worker)
    for each in (process, *process.children(recursive=True)):
        each.kill()
