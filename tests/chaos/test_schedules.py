"""Schedules and a backfill while beats and workers are killed: each point is run once, and none before its time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from pipeline_core.auth.actor import SYSTEM
from pipeline_core.common.ids import new_flow_id
from pipeline_core.database import transaction
from pipeline_core.database.models import FlowRow, RunRow
from pipeline_core.flows.definition.flow import parse_stored
from pipeline_core.flows.schedules import backfills
from pipeline_core.flows.schedules.backfills import BackfillRequest
from pipeline_core.flows.schedules.schedule_state import apply_definition
from pipeline_core.flows.states import Trigger
from pipeline_core.runtime import restart
from tests.chaos.world import supervised
from tests.installation import Installation, installed
from tests.servers import fresh_database
from tests.waiting import wait_for

MINUTES, DAYS = 20, 10
FLOWS = ("one", "two", "three")
PROCESSES = ("beat", "housekeeping", "beat-two", "flows", "housekeeping-two")
KILLS = 10
RUNS_BETWEEN = 3


@pytest.fixture
def service(
    tmp_path: Path, postgres_url: str, migrated_database: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    """Two beats and two workers for ticks, on a fast clock; each transaction that makes runs is cut off a few times."""
    variables = {
        "FAST_CLOCK_ORIGIN": str(datetime.now(UTC).timestamp()),
        "PIPELINE_CLUSTER_DRIVER": "null",
        "PIPELINE_FAILPOINT": "schedule.made:exit:3,backfill.made:exit:2",
    }
    with (
        fresh_database(postgres_url, template=migrated_database) as database_url,
        installed(tmp_path, database_url, redis_url, **variables) as service,
        supervised(service),
    ):
        for name in ("housekeeping", "flows"):
            known = service.services[name]
            argv = ["tests.chaos.fast_clock" if word == "workers.app" else word for word in known.argv]
            service.services[name] = replace(known, argv=argv)
        for name in ("housekeeping", "beat"):
            known = service.services[name]
            argv = [word.replace("run/beat", "run/beat-two").replace(f"{name}@", f"{name}-two@") for word in known.argv]
            service.services[f"{name}-two"] = replace(known, name=f"{name}-two", argv=argv)
        monkeypatch.setenv("PIPELINE_DATABASE_URL", database_url)
        restart()
        yield service
    restart()


def add(name: str, moment: datetime, **pipeline: Any) -> None:
    entry = {
        "pipeline": {"name": name, "schedule_type": "crontab", **pipeline},
        "tasks": [{"name": "join", "job_templete": "logical"}],
    }
    definition = parse_stored(entry)
    row = FlowRow(
        id=new_flow_id(moment),
        key=definition.key,
        document_key=name,
        entry=entry,
        creator="ada",
        created_at=moment,
        updated_at=moment,
        paused=False,
    )
    apply_definition(row, None, definition, moment, imported=False)
    with transaction() as session:
        session.add(row)


def runs(name: str, trigger: Trigger) -> list[RunRow]:
    with transaction() as session:
        query = select(RunRow).join(FlowRow, FlowRow.id == RunRow.flow_id)
        query = query.where(FlowRow.key == name, RunRow.trigger == trigger)
        return list(session.scalars(query.order_by(RunRow.execution_date)))


def count() -> int:
    with transaction() as session:
        return session.execute(select(func.count()).select_from(RunRow)).scalar_one()


@pytest.mark.slow
def test_each_point_is_run_once_and_in_time_whoever_is_killed(service: Installation) -> None:
    begin = datetime.now(UTC)
    for name in FLOWS:
        add(name, begin, cron_time="* * * * *", max_active_runs=3)
    add("daily", begin, cron_time="0 0 * * *")
    last_day = begin - timedelta(days=1)
    wish = BackfillRequest(start=(last_day - timedelta(days=DAYS)).isoformat(), end=last_day.isoformat())
    backfill_id = backfills.start("daily", wish, SYSTEM)["backfillID"]
    service.start(*PROCESSES)

    for victim in itertools.islice(itertools.cycle(PROCESSES), KILLS):
        enough = count() + RUNS_BETWEEN
        wait_for(lambda enough=enough: count() >= enough, "more runs to be made")  # type: ignore[misc]
        wait_for(lambda victim=victim: victim in service.processes, f"{victim} to be there")  # type: ignore[misc]
        service.kill(victim)
        service.start(victim)

    first = begin.replace(second=0, microsecond=0) + timedelta(minutes=1)
    points = [first + timedelta(minutes=number) for number in range(MINUTES)]
    for name in FLOWS:
        wait_for(
            lambda name=name: ended(name, points),  # type: ignore[misc]
            f"the points of {name} to be run",
            progress=states,
        )
        made = runs(name, Trigger.SCHEDULE)
        assert [run.execution_date for run in made][:MINUTES] == points
        assert all(run.created_at >= run.execution_date for run in made), "none is made before its time"

    def backfilled() -> bool:
        with transaction() as session:
            return bool(backfills.detail(session, backfill_id, SYSTEM)["state"] == "succeeded")

    wait_for(backfilled, "the backfill to succeed", progress=states)
    made = runs("daily", Trigger.BACKFILL)
    assert [run.state for run in made] == ["succeeded"] * DAYS
    assert [run.execution_date for run in sorted(made, key=lambda run: run.id)] == [run.execution_date for run in made]


def states() -> Counter[str]:
    """How many runs are in each state."""
    with transaction() as session:
        return Counter(session.scalars(select(RunRow.state)))


def ended(name: str, points: list[datetime]) -> bool:
    return {run.execution_date for run in runs(name, Trigger.SCHEDULE) if run.state == "succeeded"} >= set(points)
