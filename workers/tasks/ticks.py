"""Beat's ticks. They carry nothing and find their work in the database, so that a doubled or a missed one is harmless."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import structlog
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from pipeline_core import faults
from pipeline_core.clock import now
from pipeline_core.clusters.base import ClusterAway
from pipeline_core.errors import Unavailable
from pipeline_core.faults import Point
from pipeline_core.hooks import deliveries
from pipeline_core.jobs import cursor, rollup, suspensions
from pipeline_core.settings import settings
from pipeline_core.stages.order import STAGES
from pipeline_core.wakeups import Wakeup
from workers import chain, publish
from workers.app import CANARY, HOOKS, app, queues, stage_queue

log = structlog.get_logger(__name__)

BATCH = 500
CANARY_LIMIT = 100
"""A queue in which so many messages wait gets no canary more."""


def tick(name: str) -> Callable[[Callable[..., Any]], Any]:
    """A task that another tick makes good when the database, Redis or the cluster is away."""

    def register(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def run(*args: Any) -> None:
            try:
                function(*args)
            except (Unavailable, ClusterAway, RedisError, OperationalError) as error:
                log.warning("tick given up", tick=name, error=str(error))

        return app.task(run, name=name)

    return register


def queue_length(names: list[str]) -> int:
    """Messages that wait in these queues."""
    lengths = [chain.redis().llen(f"{settings().redis_prefix}{name}") for name in names]
    return sum(lengths)


def send(tick: str, found: Sequence[Wakeup]) -> None:
    """Send what a sweep has found."""
    if found:
        faults.reach(Point.TICK_FOUND, tick)
        publish.publish(found)


@tick("tick.steps")
def steps() -> None:
    """Send the steps that are owed and due: lost messages, dead workers, plugins that are to be asked again."""
    if queue_length([stage_queue(stage) for stage in STAGES]) < settings().wake_queue_limit:
        send("steps", cursor.due_steps(BATCH))


@tick("tick.deliveries")
def due_deliveries() -> None:
    """Send the deliveries that are due."""
    if queue_length([HOOKS]) < settings().wake_queue_limit:
        send("deliveries", deliveries.due())


@tick("tick.give-up")
def give_up() -> None:
    """Give up the deliveries that were tried for too long."""
    deliveries.give_up()


@tick("tick.canaries")
def send_canaries() -> None:
    """Send a canary through every queue, but not without end through one that nobody serves."""
    for queue in queues():
        if queue_length([queue]) < CANARY_LIMIT:
            app.send_task(CANARY, (queue,), queue=queue)


@tick("tick.suspensions")
def due_suspensions() -> None:
    """End the suspensions whose time is over, as their gates wished."""
    for job_id in suspensions.due(BATCH):
        suspensions.end(job_id)


@tick("tick.reconcile")
def reconcile() -> None:
    """Ask for every launched job that was not heard of for a while."""
    for job_id in rollup.unheard(now() - timedelta(seconds=settings().reconcile_seconds), BATCH):
        rollup.observe(job_id)


@tick("tick.cleanup")
def clean_up_all() -> None:
    """Go on cleaning up after jobs that have ended."""
    for job_id in rollup.uncleaned(BATCH):
        rollup.clean_up(job_id)


@tick("tick.clean")
def clean(job_id: str) -> None:
    """Clean up after one job that has just ended."""
    chain.forget([job_id])
    rollup.clean_up(job_id)
