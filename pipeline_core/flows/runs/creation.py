"""Creating runs of flows: a run is stored with its tasks and its definition, and waits until it is admitted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import TextClause, insert, text
from sqlalchemy.dialects.postgresql import insert as insert_or_not
from sqlalchemy.orm import Session

from pipeline_core.auth import audit
from pipeline_core.auth.actor import Actor
from pipeline_core.common import tracing
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_run_id
from pipeline_core.database import wakeups
from pipeline_core.database.models import FlowRow, RunDefinitionRow, RunRow, table
from pipeline_core.errors import NotFound, WrongParameter
from pipeline_core.flows import lookup
from pipeline_core.flows.definition import preparation
from pipeline_core.flows.definition.flow import Flow, Task, parse_stored
from pipeline_core.flows.definition.preparation import global_env_values
from pipeline_core.flows.definition.templates import canonical_name
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.notation.site import Site
from pipeline_core.flows.notation.variables import NAMES
from pipeline_core.flows.runs import repository, run_definition, state_machine
from pipeline_core.flows.states import RunState, Trigger
from pipeline_core.settings import settings
from pipeline_core.validation.errors import join_path
from pipeline_core.validation.texts import shown

_INSERT_RUN = insert_or_not(table(RunRow)).on_conflict_do_nothing().returning(table(RunRow).c.id)
_INSERT_DEFINITION = insert(table(RunDefinitionRow))
_INSERT_TASKS: TextClause = text(
    "INSERT INTO task_runs (run_id, key, position, name, label, state, attempt, active, retries_left, reason)"
    " SELECT :run_id, key, position - 1, name, label, state, 0, false, retries_left, ''"
    " FROM unnest(CAST(:keys AS text[]), CAST(:names AS text[]), CAST(:labels AS text[]), CAST(:states AS text[]),"
    " CAST(:retries AS integer[])) WITH ORDINALITY AS new (key, name, label, state, retries_left, position)"
)
_TEMPLATES = "templates"


def create(
    session: Session,
    flow: FlowRow,
    *,
    trigger: Trigger,
    execution_date: datetime,
    runner: str,
    variables: Mapping[str, Any] | None = None,
    only: str | None = None,
    reason: str = "",
    backfill_id: str | None = None,
    request_id: str = "",
    actor: Actor | None = None,
    definition: Flow | None = None,
    wake: bool = True,
    run_id: str | None = None,
) -> str | None:
    """Create a waiting run of the flow as it is now; its ID.

    None when the flow has a run of this trigger and date already, so that a point of the schedule has one run at most. A
    manual run is always a new one: `execution_date` is then the present moment, to which microseconds are added until it
    is unique. `variables` replace values of `global_env`; `only` names the one task of `task` and `debug` runs. `actor` is
    the one in the audit log, by default the runner. A caller that has parsed the flow passes its `definition`; one that
    admits the run itself needs no `wake` (the wake-up that has the run admitted). `run_id` is a new ID, if the caller made one.

    Raises WrongParameter for unknown variables and values that cannot be rendered, and when the task `only` reads the output
    of another; NotFound when there is no task `only`.
    """
    definition = definition or parse_stored(flow.entry)
    task = None if only is None else _task(definition, only)
    given = _texts(variables or {})
    moment = now()
    run_id = run_id or new_run_id(moment)
    run = RunRow(
        id=run_id,
        flow_id=flow.id,
        trigger=trigger,
        execution_date=execution_date,
        only_task=task or "",
        state=RunState.WAITING,
        reason=reason,
        creator=flow.creator,
        runner=runner,
        request_id=request_id,
        traceparent=_traceparent(flow.id, run_id),
        backfill_id=backfill_id,
        created_at=moment,
    )
    values = _global_values(definition, run, given)
    if task is not None:
        _check_reads_nothing(session, flow, definition.tasks[task], values)
    if not _inserted(session, run):
        return None
    _insert_definition(session, run, flow, definition, given, values)
    _insert_tasks(session, run, definition)
    if trigger.by_hand:
        who = actor or Actor(name=runner, request_id=request_id)
        after = {"flow": flow.document_key, "trigger": trigger, "task": task, "variables": sorted(given)}
        audit.record(session, who, audit.Action.RUN_START, run.id, reason=reason, after=after)
    repository.record_start(session, run, definition, moment)
    if wake:
        wakeups.after_commit(session, wakeups.FlowDue(flow.id))
    return run.id


def _traceparent(flow_id: str, run_id: str) -> str:
    """The context of the run's trace: within the request's, or of a trace that begins here, for a run that nobody starts."""
    with tracing.root("start run", tracing.current(), flow_id=flow_id, run_id=run_id) as span:
        return span.traceparent


def _task(flow: Flow, name: str) -> str:
    key = identity(name)
    if key not in flow.tasks:
        raise NotFound(f"The flow {flow.name} has no task {shown(name)}.")
    return key


def _check_reads_nothing(session: Session, flow: FlowRow, task: Task, values: Mapping[str, str]) -> None:
    """Raises WrongParameter when a task that is to run alone reads the output of another: there is none in its run."""
    site = Site.of(settings())
    try:
        template = lookup.catalogue(session, site).find(task.template)
    except NotationError:
        # The run says so itself.
        return
    others = preparation.outputs_read(task, template, {**dict.fromkeys(NAMES, ""), **values}, flow.creator, site)
    if others:
        problem = f"reads the output of {', '.join(others)}, which does not run with it; start a run of the whole flow"
        raise WrongParameter(f"The task {task.name} {problem}.", errors={"task": [problem]})


def _texts(variables: Mapping[str, Any]) -> dict[str, str]:
    """The variables as texts, as which they are rendered and become environment variables."""
    for name, value in variables.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
            path = join_path("variables", name)
            problem = f"must be a text or a number, not {shown(value)}"
            raise WrongParameter(f"{path} {problem}.", errors={path: [problem]})
    return {name: str(value) for name, value in variables.items()}


def _global_values(flow: Flow, run: RunRow, given: Mapping[str, str]) -> dict[str, str]:
    context = run_definition.run_context(
        flow,
        run_id=run.id,
        flow_id=run.flow_id,
        creator=run.creator,
        runner=run.runner,
        execution_date=run.execution_date,
    )
    try:
        return global_env_values(flow, context.builtin_values(Site.of(settings())), given)
    except NotationError as error:
        raise WrongParameter(f"global_env {error}.", errors={"variables": [f"global_env {error}"]}) from None


def _inserted(session: Session, run: RunRow) -> bool:
    """Insert the run's row, unless there is one for this point; whether it was inserted."""
    columns = table(RunRow).c.keys()
    while True:
        row = {name: value for name in columns if (value := getattr(run, name)) is not None}
        if session.execute(_INSERT_RUN, row).one_or_none():
            return True
        if not Trigger(run.trigger).by_hand:
            return False
        run.execution_date += timedelta(microseconds=1)


def _insert_definition(
    session: Session,
    run: RunRow,
    flow: FlowRow,
    definition: Flow,
    given: Mapping[str, str],
    values: Mapping[str, str],
) -> None:
    used = {canonical_name(task.template) for task in definition.tasks.values()}
    templates = {
        name: document for name, document in _template_documents(session).items() if canonical_name(name) in used
    }
    session.execute(
        _INSERT_DEFINITION,
        {
            "run_id": run.id,
            "entry": flow.entry,
            "templates": templates,
            "variables": given,
            "global_values": values,
        },
    )


def _template_documents(session: Session) -> Mapping[str, Mapping[str, Any]]:
    """All imported templates, read once for all runs that a transaction creates."""
    if _TEMPLATES not in session.info:
        session.info[_TEMPLATES] = lookup.template_documents(session)
    found: Mapping[str, Mapping[str, Any]] = session.info[_TEMPLATES]
    return found


def _insert_tasks(session: Session, run: RunRow, definition: Flow) -> None:
    tasks = state_machine.new_run(run_definition.run_plan(definition, run.only_task or None)).tasks
    session.execute(
        _INSERT_TASKS,
        {
            "run_id": run.id,
            "keys": list(tasks),
            "names": [definition.tasks[key].name for key in tasks],
            "labels": [definition.tasks[key].label for key in tasks],
            "states": [task.state for task in tasks.values()],
            "retries": [task.retries_left for task in tasks.values()],
        },
    )
