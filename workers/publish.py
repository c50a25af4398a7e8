"""Publish wake-ups (`pipeline_core.database.wakeups`) as Celery messages, best effort: while Redis is unavailable they are
dropped, and a tick finds the due work in the database and publishes it later.
"""

from __future__ import annotations

from collections.abc import Sequence

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.common.redis import outage
from pipeline_core.database import wakeups
from pipeline_core.database.wakeups import (
    CleanupDue,
    DeliveriesDue,
    FlowDue,
    RunDue,
    SchedulesDue,
    StepDue,
    Wakeup,
)
from pipeline_core.flows.runs import run_signals
from pipeline_core.hooks import woken
from pipeline_core.stages.names import Stage
from workers import chain
from workers.app import app
from workers.names import ADMIT_RUNS, ADVANCE_RUN, CLEAN_UP_JOB, DELIVER, FLOWS, HELP_SCHEDULES, HOOKS, TICKS

TIMEOUT_SECONDS = 1.0
"""How long to wait for a Redis that accepts connections and does not answer."""

HELP_SECONDS = 5.0
"""The expiry of a request to help with due schedules, in seconds."""


def install(*, consumes: bool = False) -> None:
    """Publish this process's wake-ups through Celery, and signal the runs of the jobs that it changes.

    A process that consumes nothing gives up on a silent Redis after TIMEOUT_SECONDS; a consumer has to wait for messages.
    """
    if not consumes:
        app.conf.broker_transport_options = {**app.conf.broker_transport_options, "socket_timeout": TIMEOUT_SECONDS}
    wakeups.publish_with(publish)
    run_signals.listen()


def publish(noted: Sequence[Wakeup]) -> None:
    """Send these wake-ups. Never raises because of Redis."""
    if outage().present:
        return
    try:
        for wakeup in noted:
            send(wakeup)
    except (OperationalError, RedisError, OSError) as error:
        outage().begin(f"{len(noted)} wake-ups are not sent", error)


def send(wakeup: Wakeup) -> None:
    """Send one wake-up. Raises what kombu and redis raise when Redis is unavailable."""
    match wakeup:
        case StepDue(job_id, epoch, stage, parked_epoch):
            parked = () if parked_epoch is None else chain.take_parked(job_id, parked_epoch)
            if parked:
                failpoints.reach(Point.CHAIN_TAKEN)
            stages = parked if parked and parked[0] == stage else chain.from_stage(Stage(stage))
            chain.publish(job_id, epoch, stages)
        case DeliveriesDue(subscriber):
            if woken.note(subscriber):
                app.send_task(DELIVER, (subscriber,), queue=HOOKS)
        case CleanupDue(job_id):
            app.send_task(CLEAN_UP_JOB, (job_id,), queue=TICKS)
        case RunDue(run_id):
            app.send_task(ADVANCE_RUN, (run_id,), queue=FLOWS)
        case FlowDue(flow_id):
            app.send_task(ADMIT_RUNS, (flow_id,), queue=FLOWS)
        case SchedulesDue():
            # A worker that gets the message later would find nothing left to do.
            app.send_task(HELP_SCHEDULES, queue=FLOWS, expires=HELP_SECONDS)
