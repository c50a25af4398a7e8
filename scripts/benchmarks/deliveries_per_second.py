"""Deliveries to a LifeHook of 1 ms by one worker process; against a loop that makes such calls one after the other."""

from __future__ import annotations

from contextlib import closing

import psycopg2

from pipeline_core.plugins.types import PluginType
from scripts.benchmarks.calls import rounds_per_second
from scripts.benchmarks.drain import drain, submit_jobs
from scripts.benchmarks.results import Result
from scripts.benchmarks.scale import Scale
from scripts.benchmarks.stand import JOB, Stand, plugin_server, register, standing, wait_for
from workers.processes import WORKERS

NAME = "deliveries_per_second"
GOAL = 1.0
SUBSCRIBER_MILLISECONDS = 1
# What a subscriber is sent, as far as it is of any size.
EVENT = {"id": "j01kb5gqz5sk4q7r3f0m7h2k9xz", "currentState": "waiting", "occurredAt": "2026-01-01T00:00:00.000001Z"}


def measure(scale: Scale) -> Result:
    """Each submission is an event, so the queue is filled by submitting. Nothing else is done for these jobs."""
    with standing() as stand, plugin_server(stand, SUBSCRIBER_MILLISECONDS) as url:
        subscriber = f"{url}/{PluginType.LIFE_HOOK}"
        register({"pluginType": PluginType.LIFE_HOOK, "callAddress": subscriber})
        stand.start_service("hooks1")
        _deliveries(stand, scale.jobs // 4)
        rounds = [
            (_deliveries(stand, scale.jobs), rounds_per_second([subscriber], EVENT, scale.jobs, 1))
            for _ in range(scale.rounds)
        ]
    return Result.of_rounds(
        NAME,
        "deliveries/s",
        rounds,
        goal=GOAL,
        samples=scale.jobs,
        worker_threads=WORKERS["hooks"].concurrency,
        subscriber_ms=SUBSCRIBER_MILLISECONDS,
    )


def _deliveries(stand: Stand, count: int) -> float:
    from workers.app import app
    from workers.names import HOOKS

    with closing(psycopg2.connect(stand.database_url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True

        def delivered() -> bool:
            cursor.execute("SELECT 1 FROM deliveries WHERE status <> 'delivered' LIMIT 1")
            return cursor.fetchone() is None

        seconds = drain(
            app, [HOOKS], lambda: submit_jobs(count, JOB), lambda: wait_for(delivered, "the deliveries"), "hooks1"
        )
    return count / seconds
