"""The task that delivers to a subscriber, and the drain that this worker does it with."""

from __future__ import annotations

import platform
from typing import Any

from celery import bootsteps

from pipeline_core.common import woken
from pipeline_core.hooks.drain import Drain
from pipeline_core.hooks.places import Places
from pipeline_core.plugins.client import hook_client
from pipeline_core.runtime import give, part
from pipeline_core.settings import settings
from workers.app import app
from workers.names import DELIVER, HOOKS
from workers.processes import concurrency_of


@part
def drain() -> Drain:
    """This process's drain."""
    return new_drain(platform.node(), concurrency_of("hooks"))


def new_drain(worker: str, places: int) -> Drain:
    """A drain of the worker with this node name, with so many places."""
    return Drain(worker, Places(places, settings().hook_concurrency))


@app.task(name=DELIVER)
def deliver(subscriber: str) -> None:
    """Deliver what is due to a subscriber, beside this task: it only wakes the drain."""
    woken.arrived(woken.Kind.SUBSCRIBER, subscriber)
    drain().wake(subscriber)


class WorkerDrain(bootsteps.StartStopStep):
    """Gives the worker's drain its name and places, and lets it end its calls when the worker stops."""

    def start(self, parent: Any) -> None:
        alone = set(parent.app.amqp.queues.consume_from) == {HOOKS}
        give(drain, new_drain(parent.hostname, parent.concurrency if alone else concurrency_of("hooks")))

    def stop(self, parent: Any) -> None:
        drain().stop()
        hook_client().close()


app.steps["worker"].add(WorkerDrain)
