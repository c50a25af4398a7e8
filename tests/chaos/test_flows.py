"""Runs of flows while processes are killed and Redis is emptied: each attempt of a task is one job, and all runs end well."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from pipeline_core.common.failpoints import Point
from pipeline_core.database import transaction
from pipeline_core.database.models import Job, RunRow, TaskRunRow
from pipeline_up.embedded import EmbeddedRedis
from tests.builders import flow_entry
from tests.chaos.servers import Restartable, restartable
from tests.chaos.world import QUICK, supervised
from tests.flows import at_home_in, begin, store
from tests.installation import Installation, installed
from tests.servers import fresh_database
from tests.waiting import wait_for

FLOWS = 20
DAG = {
    "a": [],
    "b": ["a"],
    "c": ["a"],
    "d": ["a"],
    "e": ["b", "c"],
    "f": ["c", "d"],
    "g": ["e"],
    "h": ["e", "f"],
    "i": ["f"],
    "j": ["g", "h", "i"],
}
STUBBORN = "e"
"""The task that fails the first time."""

PROCESSES = ("flows", "flows", "stages1", "stages2", "housekeeping", "beat", "watcher")
POINTS = (Point.RUN_ADVANCING, Point.RUN_ADVANCED, Point.TASK_SUBMITTING, Point.TASK_SUBMITTED)
BLOWS = 24
FORGETS = 3


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Restartable]:
    with restartable(EmbeddedRedis(tmp_path / "redis", durable=False)) as server:
        yield server


@pytest.fixture
def service(tmp_path: Path, postgres_url: str, migrated_database: str, redis: Restartable) -> Iterator[Installation]:
    directory = tmp_path / "world"
    directory.mkdir()
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(
            directory,
            database_url,
            redis.url,
            **QUICK,
            PIPELINE_MAX_CLAIMS="50",
            PIPELINE_FAILPOINT=",".join(f"{point}:exit:2" for point in POINTS),
        ) as service,
        supervised(service),
        at_home_in(service),
    ):
        service.start("stages1", "stages2", "flows", "housekeeping", "beat", "watcher")
        yield service


@pytest.mark.slow
def test_each_attempt_of_a_task_is_one_job_whatever_is_killed(
    service: Installation, redis: Restartable, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    starts.mkdir()
    runs = [_start(f"chaos-{number}", starts) for number in range(FLOWS)]
    over = threading.Event()
    striker = threading.Thread(target=_strike, args=(service, redis, over), daemon=True)
    striker.start()
    try:
        wait_for(lambda: _ended() == FLOWS, "all runs to end", progress=_progress)
    finally:
        over.set()
        striker.join()
    assert {path.name.partition("#")[0] for path in service.faults.iterdir()} == set(POINTS)
    with transaction() as session:
        assert Counter(session.scalars(select(RunRow.state))) == {"succeeded": FLOWS}
        tasks = session.execute(select(TaskRunRow.run_id, TaskRunRow.key, TaskRunRow.state, TaskRunRow.attempt)).all()
        jobs = Counter(session.execute(select(Job.run_id, Job.name)).tuples())
    for run_id, key, state, attempt in tasks:
        tries = 2 if key == STUBBORN else 1
        name = f"chaos-{runs.index(run_id)}-{key}"
        assert (state, attempt, jobs[run_id, name]) == ("succeeded", tries, tries), (run_id, key)
        assert len((starts / name).read_text().split()) == tries, f"{name} was started as often as it was tried"
    assert jobs.total() == FLOWS * (len(DAG) + 1)


def _start(name: str, starts: Path) -> str:
    tasks = {task: {"script": f'echo x >> "{starts}/{name}-{task}"'} for task in DAG}
    again = tasks[STUBBORN]["script"] + f'; test $(wc -l < "{starts}/{name}-{STUBBORN}") -ge 2'
    return begin(store(flow_entry(name, DAG, {**tasks, STUBBORN: {"script": again, "retry": 1}})))


def _progress() -> Any:
    """A value that changes as long as runs make progress."""
    with transaction() as session:
        return sorted(session.execute(select(TaskRunRow.run_id, TaskRunRow.key, TaskRunRow.state)).all())


def _ended() -> int:
    with transaction() as session:
        return len(session.scalars(select(RunRow.id).where(RunRow.finished_at.is_not(None))).all())


def _strike(service: Installation, redis: Restartable, over: threading.Event) -> None:
    chance = random.Random(5)
    for blow in range(1, BLOWS + 1):
        if over.wait(chance.uniform(0.5, 1.5)):
            return
        if blow % (BLOWS // FORGETS) == 0:
            redis.redis().flushall()
        with suppress(KeyError, ProcessLookupError):
            os.killpg(service.processes[chance.choice(PROCESSES)].pid, signal.SIGKILL)
