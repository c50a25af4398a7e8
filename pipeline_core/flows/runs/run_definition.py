"""What a run was started with, which never changes: its flow, its templates, and the values that its tasks share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.database.models import RunDefinitionRow, RunRow
from pipeline_core.flows.definition import documents
from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.flow import Flow
from pipeline_core.flows.definition.templates import RESERVED, Behaviour, canonical, read_templates
from pipeline_core.flows.notation.site import Site
from pipeline_core.flows.runs.cache import RunCache
from pipeline_core.flows.runs.engine import RunPlan, plan_run
from pipeline_core.flows.runs.taskset import RunContext
from pipeline_core.flows.states import Trigger
from pipeline_core.runtime import part
from pipeline_core.settings import settings


@dataclass(frozen=True)
class RunDefinition:
    """A run's definition. `templates` are the documents of those that were imported, by name."""

    flow: Flow
    plan: RunPlan
    facts: RunContext
    trigger: Trigger
    request_id: str
    templates: Mapping[str, Any]
    global_values: Mapping[str, str]

    @cached_property
    def site(self) -> Site:
        """The installation, as it is configured now."""
        return Site.of(settings())

    @cached_property
    def catalogue(self) -> Catalogue:
        """The templates. Raises WrongParameter when the installation does not allow them any more."""
        return Catalogue(read_templates(self.templates, self.site).values() if self.templates else ())

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """What variables mean in every task of the run."""
        return {**self.facts.context(self.site), **self.global_values}


def plan(flow: Flow, only: str | None = None) -> RunPlan:
    """The plan of a run of this flow, or of its task `only` alone."""
    return plan_run(flow, lambda name: RESERVED.get(canonical(name)) is Behaviour.LOGICAL, only)


def facts(flow: Flow, *, run_id: str, flow_id: str, creator: str, runner: str, execution_date: datetime) -> RunContext:
    """What all tasks of a run share."""
    return RunContext(
        id=run_id,
        flow_id=flow_id,
        flow_name=flow.name,
        project=flow.project,
        creator=creator,
        runner=runner,
        execution_date=execution_date.astimezone(ZoneInfo(flow.timezone)).strftime("%Y-%m-%d %H:%M:%S"),
        timezone=flow.timezone,
    )


@part
def _definitions() -> RunCache[RunDefinition]:
    return RunCache()


def definition(session: Session, run_id: str) -> RunDefinition:
    """The run's definition, read once in each process. The run must be there."""
    if known := _definitions().get(run_id):
        return known
    row = session.execute(_READ.where(RunRow.id == run_id)).one()
    flow = documents.parse_stored(row.entry)
    read = RunDefinition(
        flow=flow,
        plan=plan(flow, row.only_task or None),
        facts=facts(
            flow,
            run_id=run_id,
            flow_id=row.flow_id,
            creator=row.creator,
            runner=row.runner,
            execution_date=row.execution_date,
        ),
        trigger=Trigger(row.trigger),
        request_id=row.request_id,
        templates=row.templates,
        global_values=row.global_values,
    )
    _definitions().keep(run_id, read, len(flow.tasks))
    return read


_READ = select(
    RunRow.flow_id,
    RunRow.creator,
    RunRow.runner,
    RunRow.execution_date,
    RunRow.only_task,
    RunRow.trigger,
    RunRow.request_id,
    RunDefinitionRow.entry,
    RunDefinitionRow.templates,
    RunDefinitionRow.global_values,
).join(RunDefinitionRow, RunDefinitionRow.run_id == RunRow.id)
