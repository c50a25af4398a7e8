"""The tasks that go on with runs of flows. They do what the database says is to be done, whoever calls them, and how often."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import structlog

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.errors import Unavailable
from pipeline_core.flows.runs import admission, steps
from pipeline_core.flows.schedules import backfill_progress, firing
from workers.app import app

log = structlog.get_logger(__name__)


def or_later(task: Callable[[str], None]) -> Callable[[str], None]:
    """What cannot be done now stays owed, and a tick brings it back."""

    @wraps(task)
    def run(of: str) -> None:
        try:
            task(of)
        except (Unavailable, ClusterUnavailable) as error:
            log.warning("given up for now", error=error.message)

    return run


@app.task(name="flow.advance")
@or_later
def advance(run_id: str) -> None:
    """Take in what has become of a run's jobs, and carry out what follows."""
    structlog.contextvars.bind_contextvars(run_id=run_id)
    steps.advance(run_id)


@app.task(name="flow.admit")
@or_later
def admit_runs(flow_id: str) -> None:
    """Let the runs of a flow start that may, and its backfill come on: one of its runs has ended, or there are new ones."""
    structlog.contextvars.bind_contextvars(flow_id=flow_id)
    for run_id in admission.admit(flow_id):
        log.info("run started", run_id=run_id)
    backfill_progress.look_at(flow_id)


@app.task(name="flow.help")
def help_schedules() -> None:
    """Make runs that schedules owe, from the other end than the tick that called for help."""
    try:
        firing.make_due_runs(0, helping=True)
    except Unavailable as error:
        log.warning("given up for now", error=error.message)
