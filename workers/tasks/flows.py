"""The tasks that advance runs of flows. They do what is due by the database, so calling them more often is harmless."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import structlog

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.common import woken
from pipeline_core.database.wakeups import RunDue
from pipeline_core.errors import Unavailable
from pipeline_core.flows.runs import admission, progress
from pipeline_core.flows.schedules import backfill_progress, run_creation
from workers import publish
from workers.app import app
from workers.names import ADMIT_RUNS, ADVANCE_RUN, HELP_SCHEDULES

log = structlog.get_logger(__name__)

TURN_SECONDS = 0.1
"""After so long, and the batch that has begun, a run waits for its next turn."""


def retried_by_tick(task: Callable[[str], None]) -> Callable[[str], None]:
    """Log that the database or the cluster is unavailable, and return: a tick finds the work again."""

    @wraps(task)
    def run(id: str) -> None:
        try:
            task(id)
        except (Unavailable, ClusterUnavailable) as error:
            log.warning("task failed: left to the next tick", error=error.message)

    return run


@app.task(name=ADVANCE_RUN)
@retried_by_tick
def advance(run_id: str) -> None:
    """Advance a run by the states of its jobs. A large one is put back into the queue, so that others get their turn."""
    structlog.contextvars.bind_contextvars(run_id=run_id)
    woken.arrived(woken.Kind.RUN, run_id)
    if progress.advance(run_id, TURN_SECONDS):
        publish.publish([RunDue(run_id)])


@app.task(name=ADMIT_RUNS)
@retried_by_tick
def admit_runs(flow_id: str) -> None:
    """Start the waiting runs of a flow that may start, and advance its backfill."""
    structlog.contextvars.bind_contextvars(flow_id=flow_id)
    for run_id in admission.admit(flow_id):
        log.info("run started", run_id=run_id)
    backfill_progress.advance(flow_id)


@app.task(name=HELP_SCHEDULES)
def help_schedules() -> None:
    """Create due runs of schedules, in the opposite order of the tick that requested help."""
    try:
        run_creation.create_due_runs(0, helping=True)
    except Unavailable as error:
        log.warning("task failed: left to the next tick", error=error.message)
