"""Flows as they are stored, and their runs as they are found there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select

from pipeline_core.auth.actor import Actor
from pipeline_core.common.ids import new_flow_id
from pipeline_core.database import transaction
from pipeline_core.database.models import FlowRow, RunRow
from pipeline_core.flows import lookup
from pipeline_core.flows.definition.flow import parse_stored
from pipeline_core.flows.runs import admission, repository, state_machine
from pipeline_core.flows.schedules import backfill_progress, run_creation, schedule_state
from pipeline_core.flows.states import RunState, Trigger
from pipeline_core.states import JobState
from tests.builders import flow_entry
from tests.clock import TestClock

ADA = Actor(name="ada", admin=True)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def entry(name: str, *, cron: str | None = "* * * * *", **pipeline: Any) -> dict[str, Any]:
    """A flow of one task that has a job."""
    schedule = {"schedule_type": "crontab", "cron_time": cron} if cron else {}
    return flow_entry(name, {"only": []}, **schedule, **pipeline)


@dataclass
class Ledger:
    clock: TestClock

    def add(self, name: str, *, imported: bool = False, creator: str = "ada", **pipeline: Any) -> str:
        """Create a flow; its ID."""
        document = entry(name, **pipeline)
        definition = parse_stored(document)
        moment = self.clock.moment
        row = FlowRow(
            id=new_flow_id(moment),
            key=definition.key,
            document_key=name,
            entry=document,
            creator=creator,
            created_at=moment,
            updated_at=moment,
            paused=False,
        )
        schedule_state.apply_definition(row, None, definition, moment, imported=imported)
        with transaction() as session:
            session.add(row)
        return row.id

    def replace(self, name: str, *, imported: bool = False, **pipeline: Any) -> None:
        """Put another definition in the place of a flow's."""
        document = entry(name, **pipeline)
        with transaction() as session:
            row = lookup.visible(session, name, ADA, lock=True)
            before, row.entry = parse_stored(row.entry), document
            schedule_state.apply_definition(row, before, parse_stored(document), self.clock.moment, imported=imported)

    def change(self, name: str, **columns: Any) -> None:
        """Write into a flow's row, whatever that makes of it."""
        with transaction() as session:
            row = lookup.visible(session, name, ADA, lock=True)
            for column, value in columns.items():
                setattr(row, column, value)

    def row(self, name: str) -> FlowRow:
        with transaction() as session:
            return lookup.visible(session, name, ADA)

    def tick(self, seconds: float = 0) -> int:
        """What the tick does; so many runs were made."""
        return run_creation.create_due_runs(seconds)

    def runs(self, name: str, trigger: Trigger = Trigger.SCHEDULE) -> list[RunRow]:
        """The flow's runs by date."""
        with transaction() as session:
            flow = lookup.visible(session, name, ADA)
            query = select(RunRow).where(RunRow.flow_id == flow.id, RunRow.trigger == trigger)
            return list(session.scalars(query.order_by(RunRow.execution_date)))

    def points(self, name: str, trigger: Trigger = Trigger.SCHEDULE) -> list[str]:
        """The dates of the flow's runs."""
        return [f"{run.execution_date:%d %H:%M}" for run in self.runs(name, trigger)]

    def states(self, name: str, trigger: Trigger = Trigger.SCHEDULE) -> list[str]:
        return [run.state for run in self.runs(name, trigger)]

    def admit(self, name: str) -> None:
        """Let those start that may."""
        admission.admit(self.row(name).id)

    def advance(self, name: str) -> None:
        """Let the flow's backfill come on, and its runs start."""
        backfill_progress.advance(self.row(name).id)
        self.admit(name)

    def end(self, run_id: str, state: JobState = JobState.SUCCEEDED) -> None:
        """Let the job of a running run end so."""
        with transaction() as session:
            run = repository.lock(session, run_id)
            stands = repository.read(session, run)
            attempt = stands.tasks["only"].attempt
            repository.apply_events(session, run, [state_machine.JobChanged("only", attempt, state)], self.clock.moment)

    def end_running(self, name: str, state: JobState = JobState.SUCCEEDED, trigger: Trigger = Trigger.SCHEDULE) -> None:
        for run in self.runs(name, trigger):
            if run.state == RunState.RUNNING:
                self.end(run.id, state)

    def upcoming(self, name: str, count: int = 3) -> dict[str, Any]:
        with transaction() as session:
            flow = lookup.visible(session, name, ADA)
            return schedule_state.upcoming(session, flow, count, self.clock.moment)


def shown(points: Sequence[str]) -> list[str]:
    """RFC 3339 as `Ledger.points` has it."""
    return [f"{datetime.fromisoformat(point):%d %H:%M}" for point in points]
