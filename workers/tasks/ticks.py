"""Beat's ticks. A tick's message has no arguments: the tick finds due work in the
database, so that a duplicate or missed tick is harmless.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

import structlog
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from sqlalchemy import select

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.common import failpoints
from pipeline_core.common.clock import now
from pipeline_core.common.failpoints import Point
from pipeline_core.database import transaction
from pipeline_core.database.models import DeliveryStatus, Job
from pipeline_core.database.wakeups import Wakeup
from pipeline_core.errors import Unavailable
from pipeline_core.flows.runs import admission, attempts, progress
from pipeline_core.flows.schedules import backfill_progress, run_creation
from pipeline_core.hooks import deliveries
from pipeline_core.jobs import cleanup, control, replicas, rollup, sweep
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.operations import retention
from pipeline_core.settings import settings
from workers import chain, publish, queues
from workers.app import app
from workers.each_job import for_each_job
from workers.names import CLEAN_UP_JOB, FLOWS, HOOKS, QUEUE_PROBE, SEND_QUEUE_PROBES, stage_queues

log = structlog.get_logger(__name__)

BATCH = 500
SCHEDULE_SECONDS = 0.5
"""How long one tick may create due runs of schedules; other ticks wait for it."""
PROBE_LIMIT = 100
"""No probe is sent through a queue in which so many messages wait."""


def tick(name: str) -> Callable[[Callable[..., int]], Any]:
    """Register a function as the task of this tick. The function returns how many actions it took. When the database, Redis or
    the cluster is unavailable, the failure is logged and the work is left to the next tick."""

    def register(function: Callable[..., int]) -> Any:
        @wraps(function)
        def run(*args: Any) -> None:
            started = time.monotonic()
            try:
                totals().count(Metric.TICK_ACTIONS, (name,), function(*args))
            except (Unavailable, ClusterUnavailable, RedisError, OperationalError) as error:
                log.warning("tick failed", tick=name, error=str(error))
            totals().observe(Metric.TICK_SECONDS, (name,), time.monotonic() - started)

        return app.task(name=name)(run)

    return register


def below_limit(names: list[str]) -> bool:
    """Whether fewer than `wake_queue_limit` messages wait in these queues."""
    return sum(queues.lengths(names).values()) < settings().wake_queue_limit


def send(tick: str, found: Sequence[Wakeup]) -> int:
    """Publish the wake-ups that a tick has found. Returns how many."""
    if found:
        failpoints.reach(Point.TICK_FOUND, tick)
        publish.publish(found)
    return len(found)


@tick("tick.steps")
def steps() -> int:
    """Publish due steps: a message was lost, a worker died, or an unavailable plugin is to be called again."""
    if not below_limit(stage_queues()):
        return 0
    return send("steps", sweep.due_steps(BATCH))


@tick("tick.deliveries")
def due_deliveries() -> int:
    """Publish due deliveries."""
    if not below_limit([HOOKS]):
        return 0
    return send("deliveries", deliveries.due())


@tick("tick.flows")
def due_runs() -> int:
    """Publish the runs that have something to do and that no worker seems to be advancing."""
    if not below_limit([FLOWS]):
        return 0
    return send("flows", [*attempts.due(BATCH), *progress.stale_signals(BATCH)])


@tick("tick.admissions")
def waiting_flows() -> int:
    """Publish the flows whose runs wait for admission."""
    if not below_limit([FLOWS]):
        return 0
    return send("admissions", admission.flows_with_waiting_runs(BATCH))


@tick("tick.give-up")
def give_up() -> int:
    """Mark the deliveries that were attempted for too long as exhausted."""
    given_up = deliveries.give_up()
    totals().count(Metric.DELIVERY_ATTEMPTS, (DeliveryStatus.EXHAUSTED,), given_up)
    return given_up


@tick(SEND_QUEUE_PROBES)
def send_queue_probes() -> int:
    """Send a probe through every queue, except those that are long because nobody serves them."""
    short = [queue for queue, length in queues.lengths().items() if length < PROBE_LIMIT]
    for queue in short:
        app.send_task(QUEUE_PROBE, (queue,), queue=queue)
    return len(short)


@tick("tick.suspensions")
def due_suspensions() -> int:
    """End the suspensions that have timed out."""
    return for_each_job(control.due_suspensions(BATCH), control.end_suspension)


@tick("tick.reconcile")
def reconcile() -> int:
    """Observe launched jobs whose last observation is too old."""
    return for_each_job(rollup.stale(now() - timedelta(seconds=settings().reconcile_seconds), BATCH), rollup.observe)


@tick("tick.retries")
def retry_replicas() -> int:
    """Start the next attempt of the replicas whose retry is due."""
    return for_each_job(replicas.due_retries(BATCH), rollup.retry_replicas)


@tick("tick.schedule")
def create_due_runs() -> int:
    """Make the due runs of schedules."""
    return run_creation.create_due_runs(SCHEDULE_SECONDS)


@tick("tick.backfills")
def advance_backfills() -> int:
    """Advance the backfills that are running."""
    running = backfill_progress.flows_with_running_backfill(BATCH)
    for flow_id in running:
        backfill_progress.advance(flow_id)
    return len(running)


@tick("tick.cleanup")
def clean_up_all() -> int:
    """Clean up after jobs that have ended."""
    return for_each_job(cleanup.pending(BATCH), cleanup.clean_up)


def has_ended(job_id: str) -> bool:
    """Whether there is such a job, and it has ended. Raises Unavailable."""
    with transaction() as session:
        return session.execute(select(Job.finished_at).where(Job.id == job_id)).scalar_one_or_none() is not None


@tick(CLEAN_UP_JOB)
def clean(job_id: str) -> int:
    """Clean up after one job that has just ended. Its message may come from anybody: only the record says that it has."""
    if not has_ended(job_id):
        log.warning("cleanup refused: the job has not ended", job_id=job_id)
        return 0
    chain.delete_parked([job_id])
    cleanup.clean_up(job_id)
    return 1


@tick("tick.retention")
def delete_expired() -> int:
    """Delete what is older than the retention settings say."""
    return retention.enforce(BATCH)
