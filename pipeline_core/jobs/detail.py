"""A job's detail: the job, its tasks and their replicas. Built from the database alone, so that it stays the same after
everything in the cluster was deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from pipeline_core.auth.actor import Actor
from pipeline_core.common import tracing
from pipeline_core.common.clock import rfc3339
from pipeline_core.database.models import Job, JobDocument, JobResult, Replica
from pipeline_core.jobs import views
from pipeline_core.jobs.queries import visible
from pipeline_core.jobs.views import GATE_GONE
from pipeline_core.settings import settings
from pipeline_core.states import JobState, ReplicaState
from pipeline_core.taskset.document import Role, counting, roles

ResultFields = Mapping[tuple[str, int], Mapping[str, str]]
"""What a replica's part shows of its results, by role and index."""

_REPLICAS = (
    select(Replica, JobResult.output, JobResult.problem, JobResult.metrics_problem)
    .outerjoin(
        JobResult,
        and_(JobResult.job_id == Replica.job_id, JobResult.role == Replica.role, JobResult.index == Replica.index),
    )
    .order_by(Replica.role, Replica.index)
)

VERSION = "v1"
"""The version of this document's schema."""


def detail(session: Session, job_id: str, actor: Actor) -> dict[str, Any]:
    """Everything about one job. Raises NotFound."""
    found = visible(session, job_id, actor, Job, GATE_GONE)
    documents = session.execute(
        select(JobDocument.taskset, JobDocument.roles, JobDocument.platform).where(JobDocument.job_id == job_id)
    ).one()
    rows = session.execute(_REPLICAS.where(Replica.job_id == job_id)).all()
    return view(
        found.Job,
        documents.taskset,
        documents.roles or {},
        documents.platform,
        [row.Replica for row in rows],
        {
            (row.Replica.role, row.Replica.index): _result_fields(row.output, row.problem, row.metrics_problem)
            for row in rows
        },
        gate_gone=found.gate_gone,
    )


def view(
    job: Job,
    taskset: Mapping[str, Any] | None,
    states: Mapping[str, str],
    platform: Mapping[str, Any] | None,
    replicas: Sequence[Replica],
    results: ResultFields | None = None,
    *,
    gate_gone: bool = False,
) -> dict[str, Any]:
    """The document, from what is stored. `states` is by role; `platform` is what only this cluster driver reports, None
    before launch. `replicas` are in the order of their roles and indices. `gate_gone` says that the plugin which suspended the
    job is not registered any more.
    """
    by_role: dict[str, list[Replica]] = defaultdict(list)
    for replica in replicas:
        by_role[replica.role].append(replica)
    parts = [(role, document, by_role[role.name]) for role, document in _roles(taskset)]
    return {
        "version": VERSION,
        "job": _job(job, views.reason(job.reason, job.suspended_by, gate_gone)),
        "cluster": {"identity": settings().cluster_name},
        "tasks": [_task(_role_state(job, states.get(part[0].name)), *part, results or {}) for part in parts],
        "platformSpecificInfo": None if platform is None else _platform(job, taskset or {}, platform, parts),
    }


def _result_fields(output: str | None, problem: str | None, metrics_problem: str | None) -> dict[str, str]:
    """What a replica's part shows of its results: not the metrics, which are too large."""
    found = {"output": output, "outputProblem": problem or None, "metricsProblem": metrics_problem or None}
    return {name: value for name, value in found.items() if value is not None}


def _roles(taskset: Mapping[str, Any] | None) -> list[tuple[Role, Mapping[str, Any]]]:
    return list(zip(roles(taskset), taskset["spec"]["roles"], strict=True)) if taskset else []


def _job(job: Job, reason: str) -> dict[str, Any]:
    succeeded = job.state == JobState.SUCCEEDED
    return {
        "id": job.id,
        "name": job.name,
        "type": job.kind,
        "state": job.state,
        "userID": job.user_id,
        "startAt": rfc3339(job.started_at),
        "finishedAt": rfc3339(job.finished_at),
        "totalRetriedCount": job.retried,
        "exitCode": 0 if succeeded else job.exit_code,
        "exitDiagnostics": job.exit_diagnostics,
        "stage": job.stage,
        "reason": reason,
        "createdAt": rfc3339(job.created_at),
        "suspendedBy": job.suspended_by or None,
        "suspendedAt": rfc3339(job.suspended_at),
        "retryOf": job.retry_of,
        "runID": job.run_id,
        "traceID": tracing.trace_id(job.traceparent) or None,
        "cleanup": job.cleanup,
    }


def _task(
    state: ReplicaState, role: Role, document: Mapping[str, Any], replicas: Sequence[Replica], results: ResultFields
) -> dict[str, Any]:
    container = _main_container(document["template"])
    resources = container.get("resources") or {}
    return {
        "name": role.name,
        "image": container.get("image", ""),
        "state": state,
        "command": list(container.get("command") or ()),
        "replicaAmount": role.replicas,
        "maxFailedTaskCount": role.max_failed,
        "minSucceededTaskCount": role.min_succeeded,
        "resource": {"requests": resources.get("requests") or {}, "limits": resources.get("limits") or {}},
        "replicas": [
            {
                "index": replica.index,
                "state": replica.state,
                "retriedCount": replica.attempt,
                "restartCount": replica.restarts,
                "startAt": rfc3339(replica.started_at),
                "finishedAt": rfc3339(replica.finished_at),
                "containerID": replica.container_id,
                "containerHostIP": replica.host_ip,
                "exitCode": replica.exit_code,
                "exitDiagnostics": replica.diagnostics,
                **results.get((role.name, replica.index), {}),
            }
            for replica in replicas
        ],
    }


def _main_container(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first container that decides about success: decorators may have added others before it."""
    first = counting(template)[0]
    container: Mapping[str, Any] = next(c for c in template["spec"]["containers"] if c["name"] == first)
    return container


def _role_state(job: Job, stored: str | None) -> ReplicaState:
    """The stored state; roles that had not ended when the job did count as stopped."""
    state = ReplicaState(stored or ReplicaState.WAITING)
    return ReplicaState.STOPPED if JobState(job.state).final and not state.ended else state


def _platform(
    job: Job,
    taskset: Mapping[str, Any],
    platform: Mapping[str, Any],
    parts: Sequence[tuple[Role, Mapping[str, Any], Sequence[Replica]]],
) -> dict[str, Any]:
    return {
        "platform": settings().cluster_driver,
        "apiVersion": taskset.get("apiVersion", ""),
        "namespace": job.namespace,
        "instanceUID": "",
        "configMapUID": "",
        "configMapName": "",
        **platform,
        "taskRuntimeInfo": [
            {
                "name": role.name,
                "nodeSelector": document["template"]["spec"].get("nodeSelector") or {},
                "replicas": [
                    {
                        "index": replica.index,
                        "podIP": replica.pod_ip,
                        "podUID": replica.pod_uid,
                        "podName": replica.pod_name,
                        "podHostIP": replica.host_ip,
                        "podReason": replica.reason,
                    }
                    for replica in replicas
                ],
                "volumeMounts": document["template"]["spec"].get("volumes") or [],
            }
            for role, document, replicas in parts
        ],
    }
