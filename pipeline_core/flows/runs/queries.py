"""Reading runs for the API: lists, details with tasks, metrics and usage. Actors find only the runs that they may see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from pipeline_core.auth.actor import Actor
from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.factory import cluster
from pipeline_core.common.clock import rfc3339
from pipeline_core.database.counting import count_up_to
from pipeline_core.database.models import FlowRow, Job, Replica, RunRow, TaskAttempt, TaskRunRow
from pipeline_core.errors import NotFound
from pipeline_core.flows.definition.flow import flow_layout, parse_stored
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.runs import repository, run_definition
from pipeline_core.flows.states import RunState, TaskState, Trigger
from pipeline_core.jobs import results
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

LOOKED_AT = 10_000
"""How many runs a search looks at for an `ownOnly` token."""

_ATTEMPT_COLUMNS = (Job.state, Job.reason, Job.started_at, Job.finished_at)
_CELL_COLUMNS: tuple[InstrumentedAttribute[Any], ...] = (
    TaskRunRow.state,
    TaskRunRow.attempt,
    TaskRunRow.started_at,
    TaskRunRow.finished_at,
    TaskAttempt.job_id,
)

MAX_USAGE_QUERIES = 20
"""Running tasks of a run whose usage is read from the cluster, each by a call of its own."""

_TASKS = select(*_TASK_COLUMNS).select_from(TaskRunRow).outerjoin(TaskAttempt, LATEST).order_by(TaskRunRow.position)


def detail(session: Session, run_id: str, actor: Actor) -> dict[str, Any]:
    """A run with its tasks, in an order in which each follows those upstream of it.

    While a debug run is running, the reason of its task is the command that opens a shell in it. Raises NotFound.
    """
    run = visible(session, run_id, actor)
    debugging = run.trigger == Trigger.DEBUG and run.state == RunState.RUNNING
    tasks = session.execute(_TASKS.where(TaskRunRow.run_id == run_id)).all()
    definition = run_definition.definition(session, run_id)
    names = {task.key: task.name for task in tasks}
    attempts = _attempts(session, run_id)
    return {
        **_summary(run),
        "variables": definition.global_values,
        "tasks": [
            {
                **_task(task, _shell_command(session, task.job_id) if debugging else ""),
                "upstream": [names[key] for key in definition.plan.dag.upstream[task.key]],
                "attempts": attempts.get(task.key, []),
            }
            for task in tasks
        ],
    }


def graph(session: Session, run_id: str, actor: Actor, most: int) -> dict[str, Any]:
    """The layout of a run's tasks as they were when it began, with at most about `most` nodes. Raises NotFound."""
    visible(session, run_id, actor)
    definition = run_definition.definition(session, run_id)
    return flow_layout(definition.flow, most, definition.plan.dag)


def grid(
    session: Session, flow: FlowRow, actor: Actor, *, limit: int, offset: int, tasks: int, task_offset: int
) -> tuple[dict[str, Any], int]:
    """A page of a flow's runs, the newest first, with the states of as many `tasks` of the flow as it is now, in the order of
    its DAG from `task_offset`; and how many runs there are (`count_up_to`)."""
    definition = parse_stored(flow.entry)
    keys = [*definition.dag][task_offset : task_offset + tasks]
    chosen = _visible_to(_RUNS.where(RunRow.flow_id == flow.id), actor)
    page = chosen.order_by(RunRow.id.desc()).limit(limit).offset(offset).cte("page")
    cells = (
        select(*page.c, TaskRunRow.key, *(column.label(f"task_{column.key}") for column in _CELL_COLUMNS))
        .select_from(page)
        .outerjoin(TaskRunRow, and_(TaskRunRow.run_id == page.c.id, TaskRunRow.key.in_(keys)))
        .outerjoin(TaskAttempt, LATEST)
        .order_by(page.c.id.desc())
    )
    runs: dict[str, dict[str, Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    for row in session.execute(cells):
        runs.setdefault(row.id, _summary(row))
        if row.key is not None:
            found.setdefault(row.id, {})[row.key] = {
                "state": row.task_state,
                "attempt": row.task_attempt,
                "jobID": row.task_job_id,
                "startAt": rfc3339(row.task_started_at),
                "finishedAt": rfc3339(row.task_finished_at),
            }
    rows = [{**run, "tasks": [found.get(run_id, {}).get(key) for key in keys]} for run_id, run in runs.items()]
    shown = {"tasks": [definition.tasks[key].name for key in keys], "taskCount": len(definition.dag), "runs": rows}
    return shown, count_up_to(session, chosen)


def _attempts(session: Session, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """The attempts of each task of a run, by key, oldest first. A job may have been deleted since."""
    query = (
        select(TaskAttempt.key, TaskAttempt.attempt, TaskAttempt.job_id, *_ATTEMPT_COLUMNS)
        .outerjoin(Job, Job.id == TaskAttempt.job_id)
        .where(TaskAttempt.run_id == run_id)
        .order_by(TaskAttempt.attempt)
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for row in session.execute(query):
        attempt = {
            "attempt": row.attempt,
            "jobID": row.job_id,
            "state": row.state,
            "reason": row.reason or "",
            "startAt": rfc3339(row.started_at),
            "finishedAt": rfc3339(row.finished_at),
        }
        found.setdefault(row.key, []).append(attempt)
    return found


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

    `flow` is a flow's name, in either spelling; without states or triggers, runs of all of them are listed.
    """
    query = _matching(_RUNS, actor, flow, states, triggers)
    page = session.execute(query.order_by(RunRow.id.desc()).limit(limit).offset(offset))
    return [_summary(run) for run in page], count_up_to(session, query)


def search(session: Session, prefix: str, actor: Actor, *, limit: int) -> list[dict[str, Any]]:
    """At most `limit` runs whose ID, in any case, begins with `prefix`, the newest first.

    Where the actor sees only its own runs, the newest LOOKED_AT with that beginning are looked at.
    """
    if len(prefix) == 1:
        # It would be the letter that all IDs begin with.
        return []
    newest = select(RunRow.id).where(RunRow.id.startswith(prefix.lower(), autoescape=True)).order_by(RunRow.id.desc())
    query = _RUNS.where(RunRow.id.in_(newest.limit(LOOKED_AT if actor.own_only else limit)))
    found = session.execute(_visible_to(query, actor).order_by(RunRow.id.desc()).limit(limit))
    return [_summary(run) for run in found]


def visible(session: Session, run_id: str, actor: Actor) -> Row[Any]:
    """A run as lists have it. Raises NotFound when there is none, or the actor may not see it."""
    run: Row[Any] | None = session.execute(_RUNS.where(RunRow.id == run_id)).one_or_none()
    if run is None or not repository.is_visible(actor, run):
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
    return _visible_to(query, actor)


def _visible_to(query: Select[Any], actor: Actor) -> Select[Any]:
    if not actor.own_only:
        return query
    return query.where(or_(RunRow.runner == actor.name, RunRow.creator == actor.name))


def _summary(run: Row[*tuple[Any, ...]]) -> dict[str, Any]:
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


def _task(task: Row[Any], shell_command: str) -> dict[str, Any]:
    return {
        "name": task.name,
        "label": task.label,
        "state": task.state,
        "reason": shell_command or task.reason,
        "jobID": task.job_id,
        "attempt": task.attempt,
        "startAt": rfc3339(task.started_at),
        "finishedAt": rfc3339(task.finished_at),
        "output": task.output,
        "usage": None,
    }


def _shell_command(session: Session, job_id: str | None) -> str:
    """How to open a shell in the running pod of a job; empty while no pod is running."""
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


def metrics(session: Session, run_id: str, actor: Actor) -> dict[str, list[Any]]:
    """The metrics that the replicas of the last attempt of each task left behind, by the task's name. Raises NotFound."""
    visible(session, run_id, actor)
    query = (
        select(TaskRunRow.name, TaskAttempt.job_id)
        .outerjoin(TaskAttempt, LATEST)
        .where(TaskRunRow.run_id == run_id)
        .order_by(TaskRunRow.position)
    )
    jobs = {row.name: row.job_id or "" for row in session.execute(query)}
    kept = results.read(session, [job_id for job_id in jobs.values() if job_id])
    return {
        name: [metric for result in kept.get(job_id, ()) for metric in result.metrics or []]
        for name, job_id in jobs.items()
    }


def with_usage(run: Mapping[str, Any]) -> dict[str, Any]:
    """The detail of a run, each running task with the usage of its replicas together, as far as the cluster knows it.

    It is read from the cluster, not from the database.
    """
    running = [task["jobID"] for task in run["tasks"] if task["state"] == TaskState.RUNNING and task["jobID"]]
    used = {job_id: _job_usage(job_id) for job_id in running[:MAX_USAGE_QUERIES]}
    return {**run, "tasks": [{**task, "usage": used.get(task["jobID"])} for task in run["tasks"]]}


def _job_usage(job_id: str) -> dict[str, Any] | None:
    try:
        found = cluster().observe(job_id, usage=True)
    except ClusterUnavailable:
        return None
    known = [replica.usage for replica in found.replicas if replica.usage] if found else []
    if not known:
        return None
    return {
        "cpuCores": round(sum(used.cpu_cores for used in known), 3),
        "memoryBytes": sum(used.memory_bytes for used in known),
    }
