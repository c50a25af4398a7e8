"""Publish wake-ups (`pipeline_core.database.wakeups`) as Celery messages, best effort: while Redis is unavailable they are
dropped, and a tick finds the due work in the database and publishes it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from kombu import Connection, Producer
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from pipeline_core.common import failpoints, woken
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
from pipeline_core.runtime import part
from pipeline_core.stages.names import Stage
from workers import chain
from workers.app import app, send_task
from workers.names import ADMIT_RUNS, ADVANCE_RUN, CLEAN_UP_JOB, DELIVER, FLOWS, HELP_SCHEDULES, HOOKS, TICKS
from workers.publisher import Publisher

log = structlog.get_logger(__name__)

TIMEOUT_SECONDS = 1.0
TIMEOUTS = {"socket_timeout": TIMEOUT_SECONDS, "socket_connect_timeout": TIMEOUT_SECONDS}
"""How long to wait for a silent Redis. A worker's other connections wait longer, because they wait for messages."""

HELP_SECONDS = 5.0
"""The expiry of a request to help with due schedules, in seconds."""


def install() -> None:
    """Publish this process's wake-ups through Celery, and signal the runs of the jobs that it changes."""
    wakeups.publish_with(publish)
    run_signals.listen()


def publish(noted: Sequence[Wakeup]) -> None:
    """Have these wake-ups sent by this process's publisher. Waits for nothing, and never raises because of Redis."""
    if not outage().present:
        publisher().put(noted)


def connect() -> Connection:
    """A new connection to Redis, with time-outs of its own."""
    connection: Connection = app.connection_for_write(transport_options=TIMEOUTS)
    return connection


class Sender:
    """Sends wake-ups over a connection of its own, which it keeps. Used by one thread."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._producer: Any = None

    def send(self, noted: Sequence[Wakeup]) -> None:
        """Send these wake-ups in one round trip, but for what has to be asked about some of them.

        Never raises because of Redis.
        """
        failpoints.reach(Point.WAKEUPS_GATHERED, *map(wakeups.label, noted))
        # Redis may have closed a connection that was kept. What is sent twice because of that does no harm.
        is_kept = self._connection is not None
        while not outage().present:
            try:
                return self._send(noted)
            except (KombuError, RedisError, OSError) as error:
                self._disconnect()
                if not is_kept:
                    outage().begin(f"{len(noted)} wake-ups are not sent", error)
                is_kept = False

    def _send(self, noted: Sequence[Wakeup]) -> None:
        if self._connection is None:
            self._connection = connect()
            self._producer = Producer(self._connection.channel(), auto_declare=False)
        with self._producer.batch():
            for wakeup in noted:
                send(wakeup, self._producer)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.release()
            self._connection = None


@part(close=Publisher.close)
def publisher() -> Publisher[Wakeup]:
    """This process's publisher. What it has gathered is sent when the runtime is closed, and when the process ends."""
    return Publisher(Sender().send)


def send(wakeup: Wakeup, producer: Producer) -> None:
    """Send one wake-up. Raises what kombu and redis raise when Redis is unavailable."""
    match wakeup:
        case StepDue(job_id, epoch, stage, parked_epoch):
            parked = () if parked_epoch is None else chain.take_parked(job_id, parked_epoch)
            if parked:
                failpoints.reach(Point.CHAIN_TAKEN)
            stages = parked if parked and parked[0] == stage else chain.from_stage(Stage(stage))
            chain.send(job_id, epoch, stages, producer)
        case DeliveriesDue(subscriber):
            if woken.note(woken.Kind.SUBSCRIBER, subscriber):
                send_task(producer, DELIVER, (subscriber,), queue=HOOKS)
        case CleanupDue(job_id):
            send_task(producer, CLEAN_UP_JOB, (job_id,), queue=TICKS)
        case RunDue(run_id):
            if woken.note(woken.Kind.RUN, run_id):
                send_task(producer, ADVANCE_RUN, (run_id,), queue=FLOWS)
        case FlowDue(flow_id):
            send_task(producer, ADMIT_RUNS, (flow_id,), queue=FLOWS)
        case SchedulesDue():
            # A worker that gets the message later would find nothing left to do.
            send_task(producer, HELP_SCHEDULES, queue=FLOWS, expires=HELP_SECONDS)
