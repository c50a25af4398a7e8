"""What the receiver of alerts is told of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from pipeline_core.common.clock import rfc3339
from pipeline_core.database.models import RunRow
from pipeline_core.flows.definition.flow import Flow
from pipeline_core.flows.states import RunState
from pipeline_core.hooks import deliveries
from pipeline_core.settings import settings


def tell(session: Session, run: RunRow, flow: Flow, moment: datetime) -> None:
    """Tell of the run's state if its flow wants it told; called in each transaction that brings a run to a state."""
    if RunState(run.state) in flow.alert_states:
        deliveries.enqueue_alert(session, run.id, run.state, body(run, flow, settings().public_url), moment)


def body(run: RunRow, flow: Flow, public_url: str) -> dict[str, Any]:
    """The alert, but for the state's place among those that were told. Times are RFC 3339."""
    return {
        "run": run.id,
        "flow": flow.name,
        "trigger": run.trigger,
        "executionDate": rfc3339(run.execution_date),
        "reason": run.reason,
        "users": list(flow.alert_users),
        "creator": run.creator,
        "runner": run.runner,
        "createdAt": rfc3339(run.created_at),
        "startAt": rfc3339(run.started_at),
        "finishedAt": rfc3339(run.finished_at),
        "link": f"{public_url.rstrip('/')}/v1/runs/{run.id}",
    }
