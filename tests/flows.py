"""Flows for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline_core.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import StoredFlow
from pipeline_core.flows import runs
from pipeline_core.flows.ids import new_flow_id
from pipeline_core.flows.names import identity
from pipeline_core.flows.runs import Trigger


def entry(name: str, dag: Mapping[str, Sequence[str]], tasks: Mapping[str, Any] | None = None, **pipeline: Any) -> Any:
    """An entry of the import document: tasks with those upstream of each, which do nothing unless `tasks` say otherwise."""
    return {
        "pipeline": {
            "name": name,
            "dag_json": {task: {"upstream": list(before)} for task, before in dag.items()},
            **pipeline,
        },
        "tasks": [task_entry(task, **(tasks or {}).get(task, {})) for task in dag],
    }


def task_entry(name: str, *, script: str = "true", **fields: Any) -> dict[str, Any]:
    """A task that runs a shell script."""
    own = {"job_template": "customize", "args": {"images": "busybox", "command": script}}
    return {"name": name, **own, **fields}


def store(entry: Mapping[str, Any], **fields: Any) -> StoredFlow:
    """Store a flow as it is."""
    name, moment = entry["pipeline"]["name"], now()
    flow = StoredFlow(
        id=new_flow_id(moment),
        key=identity(name),
        written_as=name,
        entry=entry,
        creator="maker",
        created_at=moment,
        updated_at=moment,
        **fields,
    )
    with transaction() as session:
        session.add(flow)
    return flow


def begin(flow: StoredFlow, trigger: Trigger = Trigger.MANUAL, **fields: Any) -> str:
    """A new run of the flow."""
    with transaction() as session:
        run_id = runs.create(session, flow, **{"trigger": trigger, "execution_date": now(), "runner": "u1", **fields})
    assert run_id
    return run_id
