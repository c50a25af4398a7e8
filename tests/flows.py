"""Flows for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from pipeline_core.auth.actor import SYSTEM
from pipeline_core.common.clock import now
from pipeline_core.common.ids import new_flow_id
from pipeline_core.database import transaction, wakeups
from pipeline_core.database.models import FlowRow
from pipeline_core.database.wakeups import FlowDue, RunDue, Wakeup
from pipeline_core.flows.notation.names import identity
from pipeline_core.flows.runs import creation, queries
from pipeline_core.flows.states import Trigger
from pipeline_core.runtime import Runtime, install
from pipeline_core.settings import settings
from tests.installation import Installation
from tests.waiting import wait_for
from workers.app import configuration
from workers.names import FLOWS


def store(entry: Mapping[str, Any], **fields: Any) -> FlowRow:
    """Store a flow as it is."""
    name, moment = entry["pipeline"]["name"], now()
    flow = FlowRow(
        id=new_flow_id(moment),
        key=identity(name),
        document_key=name,
        entry=entry,
        creator="maker",
        created_at=moment,
        updated_at=moment,
        **fields,
    )
    with transaction() as session:
        session.add(flow)
    return flow


def begin(flow: FlowRow, trigger: Trigger = Trigger.MANUAL, **fields: Any) -> str:
    """A new run of the flow."""
    with transaction() as session:
        run_id = creation.create(
            session, flow, **{"trigger": trigger, "execution_date": now(), "runner": "u1", **fields}
        )
    assert run_id
    return run_id


@contextmanager
def at_home_in(service: Installation) -> Iterator[None]:
    """This process as one of the installation's own: it starts runs there, and calls the others."""
    environment = {name: value for name, value in service.environment.items() if name.startswith("PIPELINE_")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        install(Runtime())
        app = Celery("tests")
        app.config_from_object(configuration(settings()))

        def send(calls: Sequence[Wakeup]) -> None:
            for call in calls:
                with suppress(OperationalError):
                    match call:
                        case RunDue(run_id):
                            app.send_task("flow.advance", (run_id,), queue=FLOWS, retry=False)
                        case FlowDue(flow_id):
                            app.send_task("flow.admit", (flow_id,), queue=FLOWS, retry=False)

        wakeups.publish_with(send)
        try:
            yield
        finally:
            app.close()
    install(Runtime())


def run_of(run_id: str) -> dict[str, Any]:
    """The detail of a run, with its tasks by name."""
    with transaction() as session:
        found = queries.detail(session, run_id, SYSTEM)
    return {**found, "tasks": {task["name"]: task for task in found["tasks"]}}


def wait_run(run_id: str, *states: str) -> dict[str, Any]:
    """The run's detail once it is in one of these states."""
    return wait_for(
        lambda: found if (found := run_of(run_id))["state"] in states else None,
        f"{run_id} to be {' or '.join(states)}",
        progress=lambda: run_of(run_id),
    )


def wait_task(run_id: str, task: str, *states: str) -> dict[str, Any]:
    """A task of the run once it is in one of these states."""
    return wait_for(
        lambda: found if (found := run_of(run_id)["tasks"][task])["state"] in states else None,
        f"{task} of {run_id} to be {' or '.join(states)}",
        progress=lambda: run_of(run_id),
    )
