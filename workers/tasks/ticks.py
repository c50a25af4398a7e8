"""Beat's ticks. They carry nothing and find their work in the database, so that a doubled or a missed one is harmless."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import structlog

from pipeline_core import canary, retention
from pipeline_core.clock import now
from pipeline_core.clusters.base import ClusterAway
from pipeline_core.database.models import DeliveryStatus
from pipeline_core.errors import Unavailable
from pipeline_core.hooks import deliveries
from pipeline_core.jobs import cursor, rollup, suspensions
from pipeline_core.settings import settings
from pipeline_core.stages.order import STAGES
from pipeline_core.totals import Metric, totals
from workers import chain, publish, queues
from workers.app import HOOKS, app, stage_queue

log = structlog.get_logger(__name__)

BATCH = 500


def tick(name: str) -> Callable[[Callable[..., int]], Any]:
    """A task that another tick makes good when the database or the cluster is away. It tells how much there was to do."""

    def register(function: Callable[..., int]) -> Any:
        @wraps(function)
        def run(*args: Any) -> None:
            started = time.monotonic()
            try:
                totals().count(Metric.TICK_ACTIONS, (name,), function(*args))
            except (Unavailable, ClusterAway) as error:
                log.warning("tick given up", tick=name, error=error.message)
            totals().observe(Metric.TICK_SECONDS, (name,), time.monotonic() - started)

        return app.task(run, name=name)

    return register


def has_room(names: list[str]) -> bool:
    """Whether these queues are short enough for more to be sent."""
    return sum(queues.lengths(names).values()) < settings().wake_queue_limit


@tick("tick.steps")
def steps() -> int:
    """Send the steps that are owed and due: lost messages, dead workers, plugins that are to be asked again."""
    if not has_room([stage_queue(stage) for stage in STAGES]):
        return 0
    due = cursor.due_steps(BATCH)
    publish.publish(due)
    return len(due)


@tick("tick.deliveries")
def due_deliveries() -> int:
    """Send the deliveries that are due, and give up those that were tried for too long."""
    given_up = deliveries.give_up()
    totals().count(Metric.DELIVERY_TRIES, (DeliveryStatus.EXHAUSTED,), given_up)
    if not has_room([HOOKS]):
        return given_up
    due = deliveries.due(BATCH)
    publish.publish(due)
    return given_up + len(due)


@tick("tick.suspensions")
def due_suspensions() -> int:
    """End the suspensions whose time is over, as their gates wished."""
    return _each(suspensions.due(BATCH), suspensions.end)


@tick("tick.reconcile")
def reconcile() -> int:
    """Ask for every launched job that was not heard of for a while."""
    return _each(rollup.unheard(now() - timedelta(seconds=settings().reconcile_seconds), BATCH), rollup.observe)


@tick("tick.cleanup")
def clean_up_all() -> int:
    """Go on cleaning up after jobs that have ended."""
    return _each(rollup.uncleaned(BATCH), rollup.clean_up)


@tick("tick.clean")
def clean(job_id: str) -> int:
    """Clean up after one job that has just ended."""
    chain.forget([job_id])
    rollup.clean_up(job_id)
    return 1


@tick("tick.retention")
def forget_the_old() -> int:
    """Delete what was kept for long enough."""
    return retention.enforce(BATCH)


@tick("tick.canary")
def note_the_canary() -> int:
    """Note that beat's canary has come through."""
    canary.arrived()
    return 1


def _each(job_ids: Sequence[str], act: Callable[[str], object]) -> int:
    for job_id in job_ids:
        act(job_id)
    return len(job_ids)
