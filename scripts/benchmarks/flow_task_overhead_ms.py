"""What a flow costs beyond its jobs: the same jobs are run as tasks, and submitted plainly, on the null cluster.

A wide flow has all its tasks side by side, and its jobs are submitted one right after the other; a deep one has them in a
row, and each of its jobs is submitted when the one before has ended.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg2
from psycopg2.extensions import cursor as Cursor

from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import standing, wait_for
from scripts.benchmarks.stored_runs import begin_run, store_flow

NAME = "flow_task_overhead_ms"
GOAL = 5.0
POLL_SECONDS = 0.001
WARM_UP = 50
ROUNDS = 3


def measure(scale: Scale) -> Result:
    """Run both flows and their jobs in turn; the worse of the two is the figure."""
    with standing() as stand:
        from workers import publish

        publish.install()
        stand.start_service(*stand.stage_workers, "flows", "housekeeping", "beat", "watcher")
        with closing(psycopg2.connect(stand.database_url)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            shapes = {"wide": _wide(scale.tasks), "deep": _deep(scale.tasks)}
            plain = {"wide": _together, "deep": _in_turn}
            job = _a_job(cursor, _run(cursor, "warm-up", _wide(WARM_UP))[0])
            _together(cursor, job, WARM_UP)
            rounds: dict[str, list[tuple[float, float]]] = {shape: [] for shape in shapes}
            for number in range(min(scale.rounds, ROUNDS)):
                for shape, dag in shapes.items():
                    _, seconds = _run(cursor, f"{shape}-{number}", dag)
                    bare = plain[shape](cursor, job, scale.tasks)
                    rounds[shape].append((seconds, bare))
    found = {shape: _told(times, scale.tasks) for shape, times in rounds.items()}
    worst = max(found.values(), key=lambda shape: shape["overhead_ms"])
    return Result(
        name=NAME,
        value=worst["overhead_ms"],
        unit="ms",
        baseline=worst["job_ms"],
        goal=f"at most {GOAL:g} ms",
        met=worst["overhead_ms"] <= GOAL,
        samples=scale.tasks * len(rounds["wide"]),
        more=found,
    )


def _told(times: Sequence[tuple[float, float]], tasks: int) -> dict[str, float]:
    """Milliseconds for each task."""
    return {
        "overhead_ms": statistics.median(run - bare for run, bare in times) / tasks * 1000,
        "task_ms": statistics.median(run for run, _ in times) / tasks * 1000,
        "job_ms": statistics.median(bare for _, bare in times) / tasks * 1000,
    }


def _wide(tasks: int) -> dict[str, list[str]]:
    return {f"t{number}": [] for number in range(tasks)}


def _deep(tasks: int) -> dict[str, list[str]]:
    return {f"t{number}": [f"t{number - 1}"] if number else [] for number in range(tasks)}


def _run(cursor: Cursor, name: str, dag: Mapping[str, Sequence[str]]) -> tuple[str, float]:
    """Run a flow: the run's ID, and the seconds from its start to its end."""
    flow = store_flow(name, dag)
    started = time.perf_counter()
    run_id = begin_run(flow)

    def ended() -> bool:
        cursor.execute("SELECT state FROM runs WHERE id = %s AND finished_at IS NOT NULL", (run_id,))
        row = cursor.fetchone()
        if row and row != ("succeeded",):
            raise RuntimeError(f"the run of {name} has {row[0]}")
        return bool(row)

    return run_id, wait_for(ended, "the run to end", every=POLL_SECONDS) - started


def _a_job(cursor: Cursor, run_id: str) -> dict[str, Any]:
    """A job of the run, as one would submit it."""
    cursor.execute(
        "SELECT name, header, submitted FROM jobs JOIN job_documents ON job_id = id WHERE run_id = %s LIMIT 1",
        (run_id,),
    )
    name, header, submitted = cursor.fetchone() or ("", {}, {})
    return {"userID": "bench", "jobName": name, "jobKind": "TaskSet", "header": header, "job": submitted}


def _submit(job: Mapping[str, Any]) -> str:
    from api.schemas.jobs import Submit
    from pipeline_core.auth.actor import SYSTEM
    from pipeline_core.jobs.submission import submit

    return submit(Submit().read(job), SYSTEM)


def _ended(cursor: Cursor, job_ids: Sequence[str]) -> bool:
    cursor.execute("SELECT 1 FROM jobs WHERE id = ANY(%s) AND finished_at IS NULL LIMIT 1", (list(job_ids),))
    return cursor.fetchone() is None


def _together(cursor: Cursor, job: Mapping[str, Any], count: int) -> float:
    started = time.perf_counter()
    job_ids = [_submit(job) for _ in range(count)]
    return wait_for(lambda: _ended(cursor, job_ids), "the jobs to end") - started


def _in_turn(cursor: Cursor, job: Mapping[str, Any], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        job_id = _submit(job)
        wait_for(lambda: _ended(cursor, [job_id]), "the job to end", every=POLL_SECONDS)  # noqa: B023
    return time.perf_counter() - started
