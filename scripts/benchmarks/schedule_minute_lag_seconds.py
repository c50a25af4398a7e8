"""From a minute to the start of the last of 500 runs that are due then; against making and starting them in one process."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import psycopg2

from pipeline_up.service import Service
from scripts.benchmarks import clock_file
from scripts.benchmarks.results import Result, percentile
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import Stand, standing, wait_for

NAME = "schedule_minute_lag_seconds"
MINUTES = 10
"""From one point to the next: where the machine is slow, nothing more becomes due meanwhile."""
GOAL = 5.0
BEFORE_SECONDS = 3.0
"""So long before a minute the clock is set."""

_TASK = {"name": "join", "job_templete": "logical"}


def measure(scale: Scale) -> Result:
    """Let one minute after the other come."""
    with standing() as stand, tempfile.TemporaryDirectory() as directory:
        clock = Path(directory) / "clock"
        clock.write_text("0")
        os.environ[clock_file.VARIABLE] = stand.environment[clock_file.VARIABLE] = str(clock)
        _add_flows(scale.due_runs)
        bare = _bare()
        stand.start(*_workers(stand))
        stand.start_service(*stand.stage_workers, "beat")
        with closing(psycopg2.connect(stand.database_url)) as connection:
            connection.autocommit = True
            rounds = [_minute(clock, connection.cursor(), scale.due_runs) for _ in range(scale.rounds + 1)][1:]
    last = [max(lags) for lags in rounds]
    every = [lag for lags in rounds for lag in lags]
    return Result(
        name=NAME,
        value=max(last),
        unit="s",
        baseline=bare,
        goal=f"every run of {scale.due_runs} starts within {GOAL:g} s of its minute",
        met=max(last) <= GOAL,
        samples=len(every),
        more={"p50": percentile(every, 50), "p99": percentile(every, 99), "rounds": last},
    )


def _workers(stand: Stand) -> list[Service]:
    words = {"workers.app": "scripts.benchmarks.shifted"}
    return [stand.like(name, name, words) for name in ("flows", "housekeeping")]


def _add_flows(count: int) -> None:
    from pipeline_core.common.clock import now
    from pipeline_core.common.ids import new_flow_id
    from pipeline_core.database import transaction
    from pipeline_core.database.models import FlowRow
    from pipeline_core.flows.definition.flow import parse_stored
    from pipeline_core.flows.schedules.schedule_state import apply_definition

    with transaction() as session:
        for number in range(count):
            pipeline = {"name": f"flow-{number}", "schedule_type": "crontab", "cron_time": f"*/{MINUTES} * * * *"}
            entry = {"pipeline": pipeline, "tasks": [_TASK]}
            definition, moment = parse_stored(entry), now()
            row = FlowRow(
                id=new_flow_id(moment),
                key=definition.key,
                document_key=definition.name,
                entry=entry,
                creator="bench",
                created_at=moment,
                updated_at=moment,
                paused=True,
            )
            apply_definition(row, None, definition, moment, imported=False)
            session.add(row)


def _bare() -> float:
    """Seconds that the same runs take to be made and started, one after the other, by nobody else."""
    from sqlalchemy import select

    from pipeline_core.common.clock import now
    from pipeline_core.database import transaction
    from pipeline_core.database.models import FlowRow
    from pipeline_core.flows.runs import admission, creation
    from pipeline_core.flows.states import Trigger

    moment, started = now(), time.perf_counter()
    with transaction() as session:
        flows = session.scalars(select(FlowRow)).all()
    for flow in flows:
        with transaction() as session:
            creation.create(session, flow, trigger=Trigger.MANUAL, execution_date=moment, runner="bench")
        admission.admit(flow.id)
    took = time.perf_counter() - started
    with transaction() as session:
        for flow in session.scalars(select(FlowRow)):
            flow.paused = False
    return took


def _minute(clock: Path, cursor: psycopg2.extensions.cursor, due: int) -> list[float]:
    """Let a minute come; how late each of its `due` runs has started, in seconds."""
    present = datetime.now().astimezone() + timedelta(seconds=float(clock.read_text()))
    begun = present.replace(minute=present.minute // MINUTES * MINUTES, second=0, microsecond=0)
    minute = begun + timedelta(minutes=MINUTES)
    shift = float(clock.read_text()) + (minute - present).total_seconds() - BEFORE_SECONDS
    new = clock.with_suffix(".new")
    new.write_text(str(shift))
    new.replace(clock)

    def started() -> bool:
        cursor.execute(
            "SELECT count(started_at) FROM runs WHERE trigger = 'schedule' AND execution_date = %s",
            (minute,),
        )
        return cursor.fetchone() == (due,)

    wait_for(started, "the runs of a minute", every=0.1)
    cursor.execute(
        "SELECT extract(epoch FROM started_at - execution_date)::float FROM runs"
        " WHERE trigger = 'schedule' AND execution_date = %s",
        (minute,),
    )
    return [lag for (lag,) in cursor.fetchall()]
