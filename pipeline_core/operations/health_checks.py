"""Health checks: the problems that a status shows, as sentences. The Prometheus alert rules check the same conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline_core.operations import heartbeats
from pipeline_core.operations.status import Status, StepCondition
from pipeline_core.plugins.guard import Circuit
from pipeline_core.settings import Settings

BEAT_HEARTBEAT_SECONDS = 45.0
QUEUE_PROBE_SECONDS = 120.0
WORKER_HEARTBEAT_SECONDS = 30.0
PROBE_EVERY_SECONDS = 15.0
"""How often a probe is sent through each queue that is not long."""
WATCHER_REPORT_SECONDS = 60.0
WATCHER_LAG_SECONDS = 60.0
STEP_LAG_SECONDS = 60.0
STEP_WAITING_SECONDS = 60.0
DELIVERY_LAG_SECONDS = 300.0
STALE_RECONCILES = 4.0
"""A launched job is stale when its last observation is older than this many times `reconcile_seconds`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, as a sentence. `alert` is the alert rule for the same condition, under whose name the page
    docs/when-something-is-stuck.md says what to do."""

    alert: str
    text: str


def problems(status: Status, limits: Settings) -> list[Problem]:
    """All problems, causes before consequences; empty when there are none.

    Nothing is late that has not had the time since the service started.
    """
    return [
        *_process_problems(status),
        *_cluster_problems(status),
        *_step_problems(status),
        *_other_problems(status, limits),
    ]


def payload(now: Status, limits: Settings) -> dict[str, Any]:
    """The status as `/v1/status` shows it, with its problems."""
    return {
        "problems": [problem.text for problem in problems(now, limits)],
        "jobs": now.states(),
        "live": [{"state": state, "stage": stage, "count": count} for (state, stage), count in now.live.items()],
        "steps": [
            {
                "stage": steps.stage,
                "condition": steps.condition,
                "worker": steps.worker,
                "count": steps.count,
                "oldestSeconds": steps.oldest_seconds,
            }
            for steps in now.steps
        ],
        "stepLagSeconds": now.lag_seconds,
        "deliveries": [
            {"plugin": key, "count": waiting.count, "oldestSeconds": waiting.oldest_seconds}
            for key, waiting in now.deliveries.items()
        ],
        "runs": dict(now.runs),
        "endedAgeSeconds": now.ended_age_seconds,
        "failedJobs": [
            {"plugin": key, "count": failed.count, "reason": failed.reason} for key, failed in now.failed_jobs.items()
        ],
        "failingSchedules": now.failing_schedules,
        "cleanups": now.cleanups,
        "observationAgeSeconds": now.observation_age_seconds,
        "queues": now.queues and dict(now.queues),
        "plugins": [
            {
                "plugin": key,
                "circuit": health.circuit,
                "calls": health.calls,
                "failures": health.failures,
                "cause": health.cause,
            }
            for key, health in now.circuits.items()
        ],
        "workers": [{"worker": worker, "heartbeatAgeSeconds": age} for worker, age in now.worker_ages().items()],
        "beatHeartbeatAgeSeconds": now.heartbeat_ages.get(heartbeats.BEAT),
        "cluster": {
            "name": now.cluster.name,
            "usable": now.cluster.report_age_seconds is not None and not now.cluster.problem,
            "problem": now.cluster.problem,
            "since": now.cluster.since,
            "reportAgeSeconds": now.cluster.report_age_seconds,
            "lagSeconds": now.cluster.lag_seconds,
        },
        "queueProbes": [{"queue": queue, "ageSeconds": age} for queue, age in now.queue_probe_ages().items()],
    }


def _process_problems(status: Status) -> Iterator[Problem]:
    if status.queues is None:
        yield Problem("PipelineRedisAway", "Redis is away: nothing is woken, and nothing is lost.")
    beat = status.heartbeat_ages.get(heartbeats.BEAT)
    if beat is None and status.up_seconds > BEAT_HEARTBEAT_SECONDS:
        yield Problem("PipelineBeatHeartbeatOld", "Beat has sent no heartbeat yet.")
    elif beat is not None and status.is_late(beat, BEAT_HEARTBEAT_SECONDS):
        yield Problem("PipelineBeatHeartbeatOld", f"Beat has sent no heartbeat for {beat:.0f} s.")
    for queue, age in status.queue_probe_ages().items():
        if status.is_late(age, QUEUE_PROBE_SECONDS):
            text = f"The last probe came through the queue {queue} {age:.0f} s ago: {_why_late(status, queue, age)}."
            yield Problem("PipelineQueueProbeOld", text)
    if (queues := status.unproved_queues()) and status.up_seconds > QUEUE_PROBE_SECONDS:
        text = (
            f"No probe has come yet through these queues: {', '.join(queues)}. No worker serves them, or they are long."
        )
        yield Problem("PipelineQueueProbeOld", text)
    if not status.worker_ages() and status.up_seconds > WORKER_HEARTBEAT_SECONDS:
        yield Problem("PipelineWorkerHeartbeatOld", "No worker has sent a heartbeat yet.")
    for worker, age in status.worker_ages().items():
        if status.is_late(age, WORKER_HEARTBEAT_SECONDS):
            yield Problem("PipelineWorkerHeartbeatOld", f"The worker {worker} has sent no heartbeat for {age:.0f} s.")


def _cluster_problems(status: Status) -> Iterator[Problem]:
    cluster = status.cluster
    if cluster.report_age_seconds is None and status.up_seconds > WATCHER_REPORT_SECONDS:
        yield Problem("PipelineWatcherSilent", f"No watcher has reported on the cluster {cluster.name} yet.")
    elif cluster.report_age_seconds is not None and status.is_late(cluster.report_age_seconds, WATCHER_REPORT_SECONDS):
        yield Problem(
            "PipelineWatcherSilent",
            f"The watcher has not reported on the cluster {cluster.name} for {cluster.report_age_seconds:.0f} s: what "
            "changes there is seen late.",
        )
    if cluster.problem:
        yield Problem("PipelineClusterUnusable", cluster.sentence)
    if status.is_late(cluster.lag_seconds, WATCHER_LAG_SECONDS):
        text = f"The watcher is {cluster.lag_seconds:.0f} s behind what changes in the cluster {cluster.name}."
        yield Problem("PipelineWatcherLate", text)


def _why_late(status: Status, queue: str, age: float) -> str:
    """Nobody serves a queue that holds nothing but the probes since then; one with more may only be long."""
    waiting = status.queues.get(queue, 0) if status.queues else 0
    if waiting <= age / PROBE_EVERY_SECONDS + 1:
        return "nobody serves it"
    return f"it is {waiting} messages behind; its workers take less than comes in, or it has none"


def _step_problems(status: Status) -> Iterator[Problem]:
    if status.is_late(status.lag_seconds, STEP_LAG_SECONDS):
        text = f"Steps should have been published {status.lag_seconds:.0f} s ago: the tick tick.steps does not keep up."
        yield Problem("PipelineStepsOverdue", text)
    for group in status.steps:
        if group.condition is StepCondition.WAITING and status.is_late(group.oldest_seconds, STEP_WAITING_SECONDS):
            yield Problem(
                "PipelineStepsWaiting",
                f"{group.count} jobs wait for a worker at the stage {group.stage}, the first for {group.oldest_seconds:.0f} s.",
            )


def _other_problems(status: Status, limits: Settings) -> Iterator[Problem]:
    if status.is_late(status.observation_age_seconds, STALE_RECONCILES * limits.reconcile_seconds):
        text = f"Of a launched job the cluster was not asked for {status.observation_age_seconds:.0f} s."
        yield Problem("PipelineJobsStale", text)
    if status.failing_schedules:
        text = f"{status.failing_schedules} schedules can make no run: the list of flows shows which."
        yield Problem("PipelineSchedulesFailing", text)
    for key, health in status.circuits.items():
        if health.circuit is not Circuit.CLOSED:
            yield Problem("PipelinePluginAway", f"The plugin {key} is unavailable: {health.cause}")
    for key, failed in status.failed_jobs.items():
        text = f"The plugin {key} failed {failed.count} jobs in the last hour, the last one with: {failed.reason}"
        yield Problem("PipelinePluginFailsJobs", text)
    for key, waiting in status.deliveries.items():
        if status.is_late(waiting.oldest_seconds, DELIVERY_LAG_SECONDS):
            text = f"{key} has not acknowledged {waiting.count} events, the first for {waiting.oldest_seconds:.0f} s."
            yield Problem("PipelineDeliveriesLate", text)
