"""Beat's ticks. They carry nothing and find their work in the database, so that a doubled or a missed one is harmless."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import structlog
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database.models import DeliveryStatus
from pipeline_core.database.wakeups import Wakeup
from pipeline_core.errors import Unavailable
from pipeline_core.flows.runs import admission, attempts
from pipeline_core.flows.runs import steps as run_steps
from pipeline_core.flows.schedules import backfill_progress, firing
from pipeline_core.hooks import deliveries
from pipeline_core.jobs import cleanup, cursor, retries, rollup, suspensions
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.operations import retention
from pipeline_core.settings import settings
from pipeline_core.stages.order import STAGES
from workers import chain, publish, queues
from workers.app import CANARY, FLOWS, HOOKS, app, stage_queue
from workers.each_job import take_turns

log = structlog.get_logger(__name__)

BATCH = 500
SCHEDULE_SECONDS = 0.5
"""So long a tick goes on with points that schedules have missed; other ticks wait behind it."""
CANARY_LIMIT = 100
"""A queue in which so many messages wait gets no canary more."""


def tick(name: str) -> Callable[[Callable[..., int]], Any]:
    """A task that another tick makes good when the database, Redis or the cluster is away; it tells how much there was to do."""

    def register(function: Callable[..., int]) -> Any:
        @wraps(function)
        def run(*args: Any) -> None:
            started = time.monotonic()
            try:
                totals().count(Metric.TICK_ACTIONS, (name,), function(*args))
            except (Unavailable, ClusterUnavailable, RedisError, OperationalError) as error:
                log.warning("tick given up", tick=name, error=str(error))
            totals().observe(Metric.TICK_SECONDS, (name,), time.monotonic() - started)

        return app.task(name=name)(run)

    return register


def has_room(names: list[str]) -> bool:
    """Whether these queues are short enough for more to be sent."""
    return sum(queues.lengths(names).values()) < settings().wake_queue_limit


def send(tick: str, found: Sequence[Wakeup]) -> int:
    """Send what a sweep has found; how much that was."""
    if found:
        failpoints.reach(Point.TICK_FOUND, tick)
        publish.publish(found)
    return len(found)


@tick("tick.steps")
def steps() -> int:
    """Send the steps that are owed and due: lost messages, dead workers, plugins that are to be asked again."""
    if not has_room([stage_queue(stage) for stage in STAGES]):
        return 0
    return send("steps", cursor.due_steps(BATCH))


@tick("tick.deliveries")
def due_deliveries() -> int:
    """Send the deliveries that are due."""
    if not has_room([HOOKS]):
        return 0
    return send("deliveries", deliveries.due())


@tick("tick.flows")
def owed_runs() -> int:
    """Send the runs that owe something or were told something, and that nobody seems to be at work on."""
    if not has_room([FLOWS]):
        return 0
    return send("flows", [*attempts.due(BATCH), *run_steps.unheard(BATCH)])


@tick("tick.admissions")
def waiting_flows() -> int:
    """Send the flows whose runs wait."""
    if not has_room([FLOWS]):
        return 0
    return send("admissions", admission.waiting(BATCH))


@tick("tick.give-up")
def give_up() -> int:
    """Give up the deliveries that were tried for too long."""
    given_up = deliveries.give_up()
    totals().count(Metric.DELIVERY_TRIES, (DeliveryStatus.EXHAUSTED,), given_up)
    return given_up


@tick("tick.canaries")
def send_canaries() -> int:
    """Send a canary through every queue, but not without end through one that nobody serves."""
    free = [queue for queue, length in queues.lengths().items() if length < CANARY_LIMIT]
    for queue in free:
        app.send_task(CANARY, (queue,), queue=queue)
    return len(free)


@tick("tick.suspensions")
def due_suspensions() -> int:
    """End the suspensions whose time is over, as their gates wished."""
    return take_turns(suspensions.due(BATCH), suspensions.end)


@tick("tick.reconcile")
def reconcile() -> int:
    """Ask for every launched job that was not heard of for a while."""
    return take_turns(rollup.unheard(now() - timedelta(seconds=settings().reconcile_seconds), BATCH), rollup.observe)


@tick("tick.retries")
def try_again() -> int:
    """Try the replicas again that are due."""
    return take_turns(retries.due(BATCH), rollup.try_replicas_again)


@tick("tick.schedule")
def make_due_runs() -> int:
    """Make the runs that schedules owe."""
    return firing.make_due_runs(SCHEDULE_SECONDS)


@tick("tick.backfills")
def come_on() -> int:
    """Let the backfills that are running come on."""
    running = backfill_progress.running(BATCH)
    for flow_id in running:
        backfill_progress.look_at(flow_id)
    return len(running)


@tick("tick.cleanup")
def clean_up_all() -> int:
    """Go on cleaning up after jobs that have ended."""
    return take_turns(cleanup.uncleaned(BATCH), cleanup.clean_up)


@tick("tick.clean")
def clean(job_id: str) -> int:
    """Clean up after one job that has just ended."""
    chain.forget([job_id])
    cleanup.clean_up(job_id)
    return 1


@tick("tick.retention")
def forget_the_old() -> int:
    """Delete what was kept for long enough."""
    return retention.enforce(BATCH)
