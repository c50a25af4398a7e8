"""Run definitions, which are stored when a run is created and never change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline_core.database.models import RunDefinitionRow, RunRow
from pipeline_core.flows.definition import preparation
from pipeline_core.flows.definition.cache import FlowCache
from pipeline_core.flows.definition.catalogue import Catalogue
from pipeline_core.flows.definition.flow import Flow, Task, parse_stored
from pipeline_core.flows.definition.templates import BUILT_IN_BEHAVIOURS, Behaviour, canonical_name, read_templates
from pipeline_core.flows.notation import cron
from pipeline_core.flows.notation.site import Site
from pipeline_core.flows.runs.state_machine import RunPlan, plan_run
from pipeline_core.flows.runs.taskset import RunContext
from pipeline_core.flows.states import Trigger
from pipeline_core.runtime import part
from pipeline_core.settings import settings


@dataclass(frozen=True)
class RunDefinition:
    """What a run was started with. `templates` are the documents of imported templates, by name."""

    flow: Flow
    plan: RunPlan
    context: RunContext
    trigger: Trigger
    request_id: str
    traceparent: str
    templates: Mapping[str, Any]
    global_values: Mapping[str, str]

    @cached_property
    def site(self) -> Site:
        """The configuration as it is now."""
        return Site.of(settings())

    @cached_property
    def catalogue(self) -> Catalogue:
        """The templates. Raises WrongParameter when the configuration does not allow them any more."""
        return Catalogue(read_templates(self.templates, self.site).values() if self.templates else ())

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """The values of variables in every task of the run."""
        return {**self.context.builtin_values(self.site), **self.global_values}

    def readers_of(self, key: str) -> list[str]:
        """The tasks of the run, by identity, that read the output of the task `key`."""
        return [
            other
            for other in self.plan.dag
            if other not in self.plan.skipped and key in self._outputs_read(self.flow.tasks[other])
        ]

    def _outputs_read(self, task: Task) -> list[str]:
        template = self.catalogue.find(task.template)
        return preparation.outputs_read(task, template, self.values, self.context.creator, self.site)


def run_plan(flow: Flow, only: str | None = None) -> RunPlan:
    """The plan of a run of this flow, or of its task `only` alone."""
    return plan_run(flow, lambda name: BUILT_IN_BEHAVIOURS.get(canonical_name(name)) is Behaviour.LOGICAL, only)


def run_context(
    flow: Flow, *, run_id: str, flow_id: str, creator: str, runner: str, execution_date: datetime
) -> RunContext:
    """What all tasks of a run share."""
    return RunContext(
        id=run_id,
        flow_id=flow_id,
        flow_name=flow.name,
        project=flow.project,
        creator=creator,
        runner=runner,
        execution_date=cron.execution_date(execution_date, flow.timezone),
        timezone=flow.timezone,
    )


@part
def _cache() -> FlowCache[RunDefinition]:
    return FlowCache()


def definition(session: Session, run_id: str) -> RunDefinition:
    """The definition of an existing run; cached in the process."""
    if cached := _cache().get(run_id):
        return cached
    row = session.execute(_READ.where(RunRow.id == run_id)).one()
    flow = parse_stored(row.entry)
    read = RunDefinition(
        flow=flow,
        plan=run_plan(flow, row.only_task or None),
        context=run_context(
            flow,
            run_id=run_id,
            flow_id=row.flow_id,
            creator=row.creator,
            runner=row.runner,
            execution_date=row.execution_date,
        ),
        trigger=Trigger(row.trigger),
        request_id=row.request_id,
        traceparent=row.traceparent,
        templates=row.templates,
        global_values=row.global_values,
    )
    _cache().put(run_id, read, len(flow.tasks))
    return read


_READ = select(
    RunRow.flow_id,
    RunRow.creator,
    RunRow.runner,
    RunRow.execution_date,
    RunRow.only_task,
    RunRow.trigger,
    RunRow.request_id,
    RunRow.traceparent,
    RunDefinitionRow.entry,
    RunDefinitionRow.templates,
    RunDefinitionRow.global_values,
).join(RunDefinitionRow, RunDefinitionRow.run_id == RunRow.id)
