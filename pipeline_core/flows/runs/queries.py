"""Finding runs: lists, and single ones with their tasks, for those who may see them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import rfc3339
from pipeline_core.database.counting import count_up_to
from pipeline_core.database.models import FlowRow, Job, Replica, RunRow, TaskAttempt, TaskRunRow
from pipeline_core.errors import NotFound
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.runs import repository
from pipeline_core.flows.states import RunState, TaskState, Trigger
from pipeline_core.settings import settings
from pipeline_core.validation.texts import shown

_RUN_COLUMNS: tuple[ColumnElement[Any] | InstrumentedAttribute[Any], ...] = (
    RunRow.id,
    FlowRow.document_key.label("flow"),
    RunRow.trigger,
    RunRow.execution_date,
    RunRow.state,
    RunRow.reason,
    RunRow.blocked_by,
    RunRow.creator,
    RunRow.runner,
    RunRow.created_at,
    RunRow.started_at,
    RunRow.finished_at,
)
_RUNS = select(*_RUN_COLUMNS).join(FlowRow, FlowRow.id == RunRow.flow_id)

_TASK_COLUMNS: tuple[InstrumentedAttribute[Any], ...] = (
    TaskRunRow.key,
    TaskRunRow.name,
    TaskRunRow.label,
    TaskRunRow.state,
    TaskRunRow.reason,
    TaskRunRow.attempt,
    TaskRunRow.started_at,
    TaskRunRow.finished_at,
    TaskRunRow.output,
    TaskAttempt.job_id,
)
LATEST = and_(
    TaskAttempt.run_id == TaskRunRow.run_id,
    TaskAttempt.key == TaskRunRow.key,
    TaskAttempt.attempt == TaskRunRow.attempt,
)
"""A task's last attempt."""

_TASKS = select(*_TASK_COLUMNS).select_from(TaskRunRow).outerjoin(TaskAttempt, LATEST).order_by(TaskRunRow.position)


def detail(session: Session, run_id: str, actor: Actor) -> dict[str, Any]:
    """A run with its tasks, in an order in which each follows those upstream of it.

    Of a debug run, the reason of its task says how to get in while it runs. Raises NotFound.
    """
    run = visible(session, run_id, actor)
    entry = run.trigger == Trigger.DEBUG and run.state == RunState.RUNNING
    tasks = session.execute(_TASKS.where(TaskRunRow.run_id == run_id)).all()
    return {
        **_summary(run),
        "tasks": [_task(task, _way_in(session, task.job_id) if entry else "") for task in tasks],
    }


def listing(
    session: Session,
    actor: Actor,
    *,
    flow: str | None = None,
    states: Collection[RunState] = (),
    triggers: Collection[Trigger] = (),
    limit: int,
    offset: int = 0,
) -> tuple[list[dict[str, Any]], int]:
    """A page of runs without their tasks, the newest first, and how many there are (`count_up_to`).

    `flow` is a flow's name, in either spelling; no states and no triggers leave that open.
    """
    query = _matching(_RUNS, actor, flow, states, triggers)
    page = session.execute(query.order_by(RunRow.id.desc()).limit(limit).offset(offset))
    return [_summary(run) for run in page], count_up_to(session, query)


def visible(session: Session, run_id: str, actor: Actor) -> Row[Any]:
    """A run as lists have it. Raises NotFound when there is none, or it is none of this actor's business."""
    run: Row[Any] | None = session.execute(_RUNS.where(RunRow.id == run_id)).one_or_none()
    if run is None or not repository.sees(actor, run):
        raise NotFound(f"There is no run {shown(run_id)}.")
    return run


def _matching(
    query: Select[Any],
    actor: Actor,
    flow: str | None,
    states: Iterable[RunState],
    triggers: Iterable[Trigger],
) -> Select[Any]:
    if flow is not None:
        query = query.where(FlowRow.key == identity(flow))
    for column, values in ((RunRow.state, list(states)), (RunRow.trigger, list(triggers))):
        if values:
            query = query.where(column.in_(values))
    if actor.own_only:
        query = query.where(or_(RunRow.runner == actor.name, RunRow.creator == actor.name))
    return query


def _summary(run: Row[Any]) -> dict[str, Any]:
    return {
        "id": run.id,
        "flow": run.flow,
        "trigger": run.trigger,
        "executionDate": rfc3339(run.execution_date),
        "state": run.state,
        "reason": run.reason,
        "blockedBy": run.blocked_by or None,
        "runner": run.runner,
        "createdAt": rfc3339(run.created_at),
        "startAt": rfc3339(run.started_at),
        "finishedAt": rfc3339(run.finished_at),
    }


def _task(task: Row[Any], way_in: str) -> dict[str, Any]:
    return {
        "name": task.name,
        "label": task.label,
        "state": task.state,
        "reason": way_in or task.reason,
        "jobID": task.job_id,
        "attempt": task.attempt,
        "startAt": rfc3339(task.started_at),
        "finishedAt": rfc3339(task.finished_at),
        "output": task.output,
        "usage": None,
    }


def _way_in(session: Session, job_id: str | None) -> str:
    """The command by which one gets into a pod that runs; empty before it does."""
    pod = session.execute(
        select(Replica.pod_name, Replica.container_id, Job.namespace)
        .join(Job, Job.id == Replica.job_id)
        .where(Replica.job_id == job_id, Replica.state == TaskState.RUNNING)
    ).first()
    if pod is None:
        return ""
    if settings().cluster_driver == "local":
        return f"to get in, on the machine of the service: cd /proc/{pod.container_id}/cwd && sh"
    return f"to get in: kubectl exec -it -n {pod.namespace} {pod.pod_name} -- sh"
