"""The status and the running totals as families of numbers, in the form that Prometheus takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from pipeline_core.metrics.totals import Histogram, Labels, Metric, Totals
from pipeline_core.operations import heartbeats
from pipeline_core.operations.status import Standing, Status
from pipeline_core.plugins.guard import Circuit
from pipeline_core.stages.order import STAGES

Numbers = Mapping[Labels, float]


class Kind(Enum):
    """What the numbers of a family are. A histogram's are `Histogram`s."""

    GAUGE = auto()
    COUNTER = auto()
    HISTOGRAM = auto()


@dataclass(frozen=True, slots=True)
class Family:
    """One number, or one histogram, for each combination of its labels' values."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Numbers | Mapping[Labels, Histogram]
    kind: Kind = Kind.GAUGE


def standing(status: Status) -> Iterator[Family]:
    """How the service stands."""
    yield Family(
        "pipeline_jobs", "Jobs by state; the ended ones are counted once a minute.", ("state",), _one(status.states())
    )
    yield Family(
        "pipeline_jobs_live", "Jobs that have not ended, by state and stage.", ("state", "stage"), _float(status.live)
    )
    yield from _steps(status)
    yield Family(
        "pipeline_cleanups_pending",
        "Ended jobs of which something may be left in the cluster.",
        (),
        _only(status.cleanups),
    )
    yield Family(
        "pipeline_jobs_unheard_seconds",
        "For how long the cluster has told nothing of the launched job that it is longest silent about.",
        (),
        _only(status.unheard_seconds),
    )
    yield Family(
        "pipeline_runs",
        "Runs of flows by state; the ended ones are counted once a minute.",
        ("state",),
        _one(status.runs),
    )
    yield Family(
        "pipeline_schedules_faulty",
        "Schedules that are to make runs and cannot.",
        (),
        _only(status.faulty_schedules),
    )
    yield Family(
        "pipeline_deliveries_waiting",
        "Deliveries that a subscriber has not acknowledged yet, by plugin.",
        ("plugin",),
        _one({key: waiting.count for key, waiting in status.deliveries.items()}),
    )
    yield Family(
        "pipeline_delivery_lag_seconds",
        "Age of the oldest event that a subscriber has not acknowledged, by plugin.",
        ("plugin",),
        _one({key: waiting.oldest_seconds for key, waiting in status.deliveries.items()}),
    )
    yield from _signs(status)
    yield from _in_redis(status)


def _steps(status: Status) -> Iterator[Family]:
    owed: dict[Labels, float] = {(stage.value, standing.value): 0.0 for stage in STAGES for standing in Standing}
    oldest: dict[Labels, float] = {(stage.value,): 0.0 for stage in STAGES}
    leases: Counter[str] = Counter()
    for group in status.steps:
        owed[group.stage, group.standing] += group.count
        if group.standing in (Standing.WAITING, Standing.OVERDUE):
            oldest[group.stage,] = max(oldest[group.stage,], group.oldest_seconds)
        if group.worker:
            leases[group.worker] += group.count
    yield Family(
        "pipeline_steps",
        "Jobs that owe a stage, by stage and standing: held by a worker, postponed until a plugin is asked again, waiting "
        "for a worker, or overdue, because nobody sent them again.",
        ("stage", "standing"),
        owed,
    )
    yield Family(
        "pipeline_steps_waiting_seconds",
        "Age of the oldest step that no worker has taken, by stage.",
        ("stage",),
        oldest,
    )
    yield Family(
        "pipeline_steps_lag_seconds", "For how long the most overdue step is so.", (), _only(status.lag_seconds)
    )
    yield Family("pipeline_leases", "Steps that a worker holds, by worker.", ("worker",), _one(leases))


def _signs(status: Status) -> Iterator[Family]:
    yield Family(
        "pipeline_worker_silent_seconds",
        "Time since a worker's last sign of life, by worker.",
        ("worker",),
        _one(status.workers()),
    )
    yield Family(
        "pipeline_beat_silent_seconds",
        "Time since beat's last sign of life; +Inf before its first.",
        (),
        _only(status.silent.get(heartbeats.BEAT, float("inf"))),
    )
    yield Family(
        "pipeline_canary_silent_seconds",
        "Time since a message was last seen to come through a queue, by queue.",
        ("queue",),
        _one(status.canaries()),
    )


def _in_redis(status: Status) -> Iterator[Family]:
    if status.queues is None:
        return
    yield Family("pipeline_queue_messages", "Messages that wait, by queue.", ("queue",), _one(status.queues.waiting))
    yield Family(
        "pipeline_queue_unacknowledged",
        "Messages that workers have taken and not acknowledged.",
        (),
        _only(status.queues.unacknowledged),
    )
    yield Family(
        "pipeline_plugin_circuit",
        "1 for the state that a plugin's circuit breaker is in, by plugin.",
        ("plugin", "circuit"),
        _float(
            {
                (key, circuit.value): health.circuit is circuit
                for key, health in status.circuits.items()
                for circuit in Circuit
            }
        ),
    )
    yield Family(
        "pipeline_plugin_calls",
        "Requests to a plugin that are under way, by plugin.",
        ("plugin",),
        _one({key: health.calls for key, health in status.circuits.items()}),
    )


def running(totals: Totals, plugins: Collection[str]) -> Iterator[Family]:
    """What is added up in Redis; of plugins, of these alone. Raises RedisError."""
    begun = " Counted in Redis, and from 0 again when that was emptied."
    calls = totals.histograms(Metric.PLUGIN_CALL_SECONDS)
    yield Family(
        "pipeline_plugin_call_seconds",
        "How long requests to plugins took, by plugin and outcome." + begun,
        ("plugin", "outcome"),
        {labels: histogram for labels, histogram in calls.items() if labels[0] in plugins},
        Kind.HISTOGRAM,
    )
    yield Family(
        "pipeline_stage_seconds",
        "How long stages took from the claim to the commit, by stage and outcome." + begun,
        ("stage", "outcome"),
        totals.histograms(Metric.STAGE_SECONDS),
        Kind.HISTOGRAM,
    )
    yield Family(
        "pipeline_tick_seconds",
        "How long beat's ticks took, by name." + begun,
        ("tick",),
        totals.histograms(Metric.TICK_SECONDS),
        Kind.HISTOGRAM,
    )
    yield Family(
        "pipeline_tick_actions_total",
        "What beat's ticks found to do, by name." + begun,
        ("tick",),
        _float(totals.counts(Metric.TICK_ACTIONS)),
        Kind.COUNTER,
    )
    yield Family(
        "pipeline_delivery_tries_total",
        "Tries of deliveries, by the status that each was left in." + begun,
        ("status",),
        _float(totals.counts(Metric.DELIVERY_TRIES)),
        Kind.COUNTER,
    )


def _one(numbers: Mapping[str, float]) -> Numbers:
    return {(name,): float(number) for name, number in numbers.items()}


def _float(numbers: Mapping[Labels, int] | Mapping[tuple[str, str], int]) -> Numbers:
    return {tuple(labels): float(number) for labels, number in numbers.items()}


def _only(number: float) -> Numbers:
    return {(): float(number)}
