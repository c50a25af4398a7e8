"""Publishing wake-up calls (`pipeline_core.database.wakeups`) as Celery messages, best effort: whatever is not sent now, because
Redis is away, a tick finds in the database and sends later.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.database import wakeups
from pipeline_core.database.wakeups import (
    CleanupOwed,
    DeliveryOwed,
    FlowOwed,
    RunOwed,
    SchedulesOwed,
    StepOwed,
    Wakeup,
)
from pipeline_core.stages.order import Stage
from workers import chain
from workers.app import FLOWS, HOOKS, TICKS, app

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 2.0
"""For so long after a failure nothing is tried: a request must not wait for a Redis that is known to be away."""

TIMEOUT_SECONDS = 1.0
"""How long a Redis that is there and does not answer is waited for."""

HELP_SECONDS = 5.0
"""How long a call for help counts."""

_away_until = 0.0


def install(*, consumes: bool = False) -> None:
    """Announce this process's wake-up calls through Celery.

    One that consumes nothing has little patience with a Redis that does not answer; a consumer has to wait for messages.
    """
    if not consumes:
        app.conf.broker_transport_options = {**app.conf.broker_transport_options, "socket_timeout": TIMEOUT_SECONDS}
    wakeups.publish_with(publish)


def publish(noted: Sequence[Wakeup]) -> None:
    """Send what was noted; never raises because of Redis."""
    global _away_until
    if time.monotonic() < _away_until:
        return
    try:
        for wakeup in noted:
            send(wakeup)
    except (OperationalError, RedisError, OSError) as error:
        _away_until = time.monotonic() + PAUSE_SECONDS
        log.warning("wake-up calls not sent: Redis is away", error=str(error), calls=len(noted))


def send(wakeup: Wakeup) -> None:
    """Send one wake-up call. Raises what kombu and redis raise when Redis is away."""
    match wakeup:
        case StepOwed(job_id, epoch, stage, parked_epoch):
            parked = () if parked_epoch is None else chain.take_parked(job_id, parked_epoch)
            if parked:
                failpoints.reach(Point.CHAIN_TAKEN)
            stages = parked if parked and parked[0] == stage else chain.from_stage(Stage(stage))
            chain.publish(job_id, epoch, stages)
        case DeliveryOwed(delivery_id):
            app.send_task("hook.deliver", (delivery_id,), queue=HOOKS)
        case CleanupOwed(job_id):
            app.send_task("tick.clean", (job_id,), queue=TICKS)
        case RunOwed(run_id):
            app.send_task("flow.advance", (run_id,), queue=FLOWS)
        case FlowOwed(flow_id):
            app.send_task("flow.admit", (flow_id,), queue=FLOWS)
        case SchedulesOwed():
            # Later it would find nothing left.
            app.send_task("flow.help", queue=FLOWS, expires=HELP_SECONDS)
