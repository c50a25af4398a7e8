"""Runs of flows that are stored as they are made, from this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline_core.database.models import FlowRow


def store_flow(name: str, dag: Mapping[str, Sequence[str]]) -> FlowRow:
    """Store a flow whose tasks do nothing, and wait for those that `dag` has for each."""
    from pipeline_core.common.clock import now
    from pipeline_core.common.ids import new_flow_id
    from pipeline_core.database import transaction

    moment = now()
    flow = FlowRow(
        id=new_flow_id(moment),
        key=name,
        document_key=name,
        entry=_entry(name, dag),
        creator="bench",
        created_at=moment,
        updated_at=moment,
    )
    with transaction() as session:
        session.add(flow)
    return flow


def begin_run(flow: FlowRow) -> str:
    """A new run of the flow; its ID."""
    from pipeline_core.common.clock import now
    from pipeline_core.database import transaction
    from pipeline_core.flows.runs import creation
    from pipeline_core.flows.states import Trigger

    with transaction() as session:
        return str(creation.create(session, flow, trigger=Trigger.MANUAL, execution_date=now(), runner="bench"))


def _entry(name: str, dag: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        "pipeline": {
            "name": name,
            "parallelism": len(dag),
            "dag_json": {task: {"upstream": list(before)} for task, before in dag.items()},
        },
        "tasks": [
            {"name": task, "job_template": "customize", "args": {"images": "busybox", "command": "true"}}
            for task in dag
        ],
    }
