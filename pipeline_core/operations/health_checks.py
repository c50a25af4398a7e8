"""What of a status calls for somebody to look, in sentences. The alert rules for Prometheus ask for the same."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline_core.operations import heartbeats
from pipeline_core.operations.status import Standing, Status
from pipeline_core.plugins.guard import Circuit
from pipeline_core.settings import Settings

BEAT_SILENT_SECONDS = 60.0
CANARY_SILENT_SECONDS = 120.0
WORKER_SILENT_SECONDS = 120.0
STEP_LAG_SECONDS = 60.0
STEP_WAITING_SECONDS = 60.0
DELIVERY_LAG_SECONDS = 300.0
UNHEARD_ROUNDS = 4.0
"""Rounds of the reconcile that may pass without a word of a job."""


def problems(status: Status, limits: Settings) -> list[str]:
    """All of them, those that explain others first; empty when all is well."""
    return [*_processes(status), *_steps(status), *_around(status, limits)]


def _processes(status: Status) -> Iterator[str]:
    if status.queues is None:
        yield "Redis is away: nothing is woken, and nothing is lost."
    beat = status.silent.get(heartbeats.BEAT)
    if beat is None:
        yield "Beat was never heard of."
    elif beat > BEAT_SILENT_SECONDS:
        yield f"Beat was last heard of {beat:.0f} s ago."
    for queue, silent in status.canaries().items():
        if silent > CANARY_SILENT_SECONDS:
            yield f"The last canary came through the queue {queue} {silent:.0f} s ago: nobody serves it."
    if not status.workers():
        yield "No worker was ever heard of."
    for worker, silent in status.workers().items():
        if silent > WORKER_SILENT_SECONDS:
            yield f"The worker {worker} was last heard of {silent:.0f} s ago."


def _steps(status: Status) -> Iterator[str]:
    if status.lag_seconds > STEP_LAG_SECONDS:
        yield f"Steps should have been sent again {status.lag_seconds:.0f} s ago: the tick tick.steps does not keep up."
    for group in status.steps:
        if group.standing is Standing.WAITING and group.oldest_seconds > STEP_WAITING_SECONDS:
            yield (
                f"{group.count} jobs wait for a worker at the stage {group.stage}, the first for {group.oldest_seconds:.0f} s."
            )


def _around(status: Status, limits: Settings) -> Iterator[str]:
    if status.unheard_seconds > UNHEARD_ROUNDS * limits.reconcile_seconds:
        yield f"Of a launched job the cluster was not asked for {status.unheard_seconds:.0f} s."
    if status.faulty_schedules:
        yield f"{status.faulty_schedules} schedules can make no run: the list of flows shows which."
    for key, health in status.circuits.items():
        if health.circuit is not Circuit.CLOSED:
            yield f"The plugin {key} is not to be had: {health.cause}"
    for key, waiting in status.deliveries.items():
        if waiting.oldest_seconds > DELIVERY_LAG_SECONDS:
            yield f"{key} has not acknowledged {waiting.count} events, the first for {waiting.oldest_seconds:.0f} s."
