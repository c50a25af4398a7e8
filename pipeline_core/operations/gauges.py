"""The status and the totals as metric families of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from pipeline_core.metrics.totals import Histogram, Labels, Metric, Totals
from pipeline_core.operations import heartbeats
from pipeline_core.operations.cluster_health import ClusterHealth
from pipeline_core.operations.status import Status, StepCondition
from pipeline_core.plugins.guard import CALL_METRICS, Circuit
from pipeline_core.stages.names import STAGES

Numbers = Mapping[Labels, float]


class Kind(Enum):
    """The Prometheus type of a family. Samples of a histogram are `Histogram`s."""

    GAUGE = auto()
    COUNTER = auto()
    HISTOGRAM = auto()


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: one number, or one histogram, for each combination of label values."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Numbers | Mapping[Labels, Histogram]
    kind: Kind = Kind.GAUGE


def of_status(status: Status) -> Iterator[Family]:
    """The gauges of the service's status."""
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
        "pipeline_jobs_observation_age_seconds",
        "Age of the oldest last observation of a launched job.",
        (),
        _only(status.observation_age_seconds),
    )
    yield Family(
        "pipeline_runs",
        "Runs of flows by state; the ended ones are counted once a minute.",
        ("state",),
        _one(status.runs),
    )
    yield Family(
        "pipeline_plugin_failed_jobs",
        "Jobs that a plugin failed in the last hour: it was unavailable for too long, or its answer could not be used.",
        ("plugin",),
        _one({key: failed.count for key, failed in status.failed_jobs.items()}),
    )
    yield Family(
        "pipeline_schedules_failing",
        "Schedules that are not paused and cannot make runs.",
        (),
        _only(status.failing_schedules),
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
    yield from _heartbeats(status)
    yield from _cluster(status.cluster)
    yield from _in_redis(status)


def _cluster(cluster: ClusterHealth) -> Iterator[Family]:
    usable = {} if cluster.report_age_seconds is None else {cluster.name: float(not cluster.problem)}
    yield Family(
        "pipeline_cluster_up",
        "1 when the watcher's last report says that the cluster can be used; missing before the first.",
        ("cluster",),
        _one(usable),
    )
    yield Family(
        "pipeline_cluster_problem_seconds",
        "For how long the cluster could not be used; 0 when it can.",
        ("cluster",),
        _one({cluster.name: cluster.problem_seconds}),
    )
    yield Family(
        "pipeline_watcher_report_age_seconds",
        "Time since the watcher's last report; +Inf before its first.",
        (),
        _only(float("inf") if cluster.report_age_seconds is None else cluster.report_age_seconds),
    )
    yield Family(
        "pipeline_watcher_lag_seconds",
        "How long ago the watcher saw the oldest change that it has not written yet.",
        (),
        _only(cluster.lag_seconds),
    )


def _steps(status: Status) -> Iterator[Family]:
    counts: dict[Labels, float] = {
        (stage.value, condition.value): 0.0 for stage in STAGES for condition in StepCondition
    }
    oldest: dict[Labels, float] = {(stage.value,): 0.0 for stage in STAGES}
    leases: Counter[str] = Counter()
    for group in status.steps:
        counts[group.stage, group.condition] += group.count
        if group.condition in (StepCondition.WAITING, StepCondition.OVERDUE):
            oldest[group.stage,] = max(oldest[group.stage,], group.oldest_seconds)
        if group.worker:
            leases[group.worker] += group.count
    yield Family(
        "pipeline_steps",
        "Steps by stage and condition: held by a worker, postponed until a plugin is called again, waiting for a worker, or "
        "overdue because no tick has published them again.",
        ("stage", "condition"),
        counts,
    )
    yield Family(
        "pipeline_steps_waiting_seconds",
        "Age of the oldest step that no worker has taken, by stage.",
        ("stage",),
        oldest,
    )
    yield Family(
        "pipeline_steps_lag_seconds", "How long the most overdue step has been overdue.", (), _only(status.lag_seconds)
    )
    yield Family("pipeline_leases", "Steps that a worker holds, by worker.", ("worker",), _one(leases))


def _heartbeats(status: Status) -> Iterator[Family]:
    yield Family(
        "pipeline_worker_heartbeat_age_seconds",
        "Time since a worker's last heartbeat, by worker.",
        ("worker",),
        _one(status.worker_ages()),
    )
    yield Family(
        "pipeline_beat_heartbeat_age_seconds",
        "Time since beat's last heartbeat; +Inf before its first.",
        (),
        _only(status.heartbeat_ages.get(heartbeats.BEAT, float("inf"))),
    )
    yield Family(
        "pipeline_queue_probe_age_seconds",
        "Time since the last queue probe arrived, by queue; +Inf before the first.",
        ("queue",),
        _one({queue: float("inf") for queue in status.unproved_queues()} | status.queue_probe_ages()),
    )


def _in_redis(status: Status) -> Iterator[Family]:
    if status.queues is None:
        return
    yield Family("pipeline_queue_messages", "Messages that wait in a queue, by queue.", ("queue",), _one(status.queues))
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


def of_totals(totals: Totals, plugins: Collection[str]) -> Iterator[Family]:
    """The counters and histograms in Redis; per-plugin ones for these plugins only. Raises RedisError."""
    note = " Counted in Redis, and from 0 again when that was emptied."
    calls = {
        (*labels, mode.value): histogram
        for mode, metric in CALL_METRICS.items()
        for labels, histogram in totals.histograms(metric).items()
    }
    yield Family(
        "pipeline_plugin_call_seconds",
        "How long requests to plugins took, by plugin, outcome and mode." + note,
        ("plugin", "outcome", "mode"),
        {labels: histogram for labels, histogram in calls.items() if labels[0] in plugins},
        Kind.HISTOGRAM,
    )
    yield Family(
        "pipeline_shadows_dropped_total",
        "Questions that a shadow was not asked, since too many waited or it could not be called, by plugin." + note,
        ("plugin",),
        _float(totals.counts(Metric.SHADOWS_DROPPED)),
        Kind.COUNTER,
    )
    yield Family(
        "pipeline_stage_seconds",
        "How long stages took from the claim to the commit, by stage and outcome." + note,
        ("stage", "outcome"),
        totals.histograms(Metric.STAGE_SECONDS),
        Kind.HISTOGRAM,
    )
    yield Family(
        "pipeline_tick_seconds",
        "How long beat's ticks took, by name." + note,
        ("tick",),
        totals.histograms(Metric.TICK_SECONDS),
        Kind.HISTOGRAM,
    )
    yield Family(
        "pipeline_tick_actions_total",
        "What beat's ticks found to do, by name." + note,
        ("tick",),
        _float(totals.counts(Metric.TICK_ACTIONS)),
        Kind.COUNTER,
    )
    yield Family(
        "pipeline_delivery_attempts_total",
        "Attempts of deliveries, by the status that each was left in." + note,
        ("status",),
        _float(totals.counts(Metric.DELIVERY_ATTEMPTS)),
        Kind.COUNTER,
    )

    yield Family(
        "pipeline_cluster_errors_total",
        "Requests that the cluster did not serve, by HTTP status or `unreachable`." + note,
        ("error",),
        _float(totals.counts(Metric.CLUSTER_ERRORS)),
        Kind.COUNTER,
    )
    yield Family(
        "pipeline_watch_lists_total",
        "How often the watch has listed all pods of a namespace, by namespace." + note,
        ("namespace",),
        _float(totals.counts(Metric.WATCH_LISTS)),
        Kind.COUNTER,
    )


def _one(numbers: Mapping[str, float]) -> Numbers:
    return {(name,): float(number) for name, number in numbers.items()}


def _float(numbers: Mapping[Labels, int] | Mapping[tuple[str, str], int]) -> Numbers:
    return {tuple(labels): float(number) for labels, number in numbers.items()}


def _only(number: float) -> Numbers:
    return {(): float(number)}
