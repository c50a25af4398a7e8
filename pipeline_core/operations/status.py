"""The status of the service, read from the database and Redis, for `/metrics` and `/v1/status`.

How long reading takes does not depend on how many jobs and runs have ended: live ones are found by partial indexes, ended
ones are counted once a minute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

import structlog
from redis.exceptions import RedisError
from sqlalchemy import Select, case, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import InstrumentedAttribute, Session

from pipeline_core.database import transaction
from pipeline_core.database.models import (
    Cleanup,
    Delivery,
    DeliveryStatus,
    Feature,
    FlowRow,
    Job,
    Plugin,
    RunRow,
    Step,
    TrailRow,
)
from pipeline_core.flows.states import RunState
from pipeline_core.jobs import sweep
from pipeline_core.operations import cluster_health, heartbeats, queue_probes
from pipeline_core.operations.cluster_health import ClusterHealth
from pipeline_core.plugins.client import client
from pipeline_core.plugins.guard import PluginHealth
from pipeline_core.runtime import part
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import TrailOutcome
from pipeline_core.states import JobState

log = structlog.get_logger(__name__)

COUNTED_SECONDS = 60.0
"""How old the cached numbers of ended jobs and runs may be."""


FAILED_JOBS_SPAN = timedelta(hours=1)

_STARTED = time.monotonic()


class StepCondition(StrEnum):
    """Whether a step is `held` by a worker, `postponed` until a plugin is to be called again, `waiting` for a worker, or
    `overdue`: it should have been published again and was not."""

    HELD = "held"
    POSTPONED = "postponed"
    WAITING = "waiting"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps of the same stage, condition and worker; `worker` is the node name of the worker that holds them, or empty."""

    stage: str
    condition: StepCondition
    worker: str
    count: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Backlog:
    """Deliveries that one plugin has not acknowledged yet."""

    count: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class FailedJobs:
    """The jobs that one plugin failed in the last hour: how many, and the reason of the last one."""

    count: int
    reason: str


Queues = Mapping[str, int]
"""Messages that wait in Redis, by queue."""


@dataclass(frozen=True, slots=True)
class Status:
    """`live` counts jobs by state and stage, `ended` by state; `ended_age_seconds` is how long ago ended jobs and runs were
    counted. `lag_seconds` is how long the most overdue step has been overdue, `observation_age_seconds` the age of the oldest
    last observation of a launched job. `runs` counts runs of flows by state; `failed_jobs` are by the plugin that failed them;
    `failing_schedules` are those that cannot make runs. `heartbeat_ages` is in seconds, by name in the table. `cluster` is what
    the watcher reports.
    `plugins` are all registered plugins, `circuits` has the enabled ones. While Redis is unavailable `queues` is None and
    `circuits` is empty. `up_seconds` is how long the process that answers has been up."""

    live: Mapping[tuple[str, str], int]
    ended: Mapping[str, int]
    steps: tuple[StepGroup, ...]
    lag_seconds: float
    deliveries: Mapping[str, Backlog]
    cleanups: int
    observation_age_seconds: float
    runs: Mapping[str, int]
    ended_age_seconds: float
    failed_jobs: Mapping[str, FailedJobs]
    failing_schedules: int
    heartbeat_ages: Mapping[str, float]
    cluster: ClusterHealth
    plugins: tuple[str, ...]
    circuits: Mapping[str, PluginHealth]
    queues: Queues | None
    up_seconds: float

    def is_late(self, age: float, limit: float) -> bool:
        """Whether something is older than the limit, in seconds, and has had the time since the service started."""
        return min(age, self.up_seconds) > limit

    def states(self) -> dict[str, int]:
        """Jobs by state, also the states that no job is in."""
        counts = {state.value: 0 for state in JobState} | dict(self.ended)
        for (state, _), count in self.live.items():
            counts[state] = counts.get(state, 0) + count
        return counts

    def worker_ages(self) -> dict[str, float]:
        """Seconds since each worker's last heartbeat, by node name."""
        return {
            name.removeprefix(heartbeats.WORKER): age
            for name, age in self.heartbeat_ages.items()
            if name.startswith(heartbeats.WORKER)
        }

    def queue_probe_ages(self) -> dict[str, float]:
        """Seconds since the last probe arrived, by queue."""
        return queue_probes.ages(self.heartbeat_ages)

    def unproved_queues(self) -> list[str]:
        """The queues through which no probe has arrived since the database was made; empty while Redis is unavailable."""
        return [queue for queue in self.queues or () if queue not in self.queue_probe_ages()]


def read(read_queues: Callable[[], Queues]) -> Status:
    """The status now. `read_queues` may raise RedisError. Raises Unavailable."""
    with transaction() as session:
        recorded: dict[str, Any] = {
            "live": _live(session),
            "ended": _ended_jobs()(session),
            "steps": _steps(session),
            "lag_seconds": _seconds(session, select(_age(func.min(Step.due_at)))),
            "deliveries": _deliveries(session),
            "cleanups": session.scalar(select(func.count()).where(Job.cleanup == Cleanup.PENDING)) or 0,
            "observation_age_seconds": _seconds(
                session,
                select(_age(func.min(Job.last_observed_at))).where(
                    Job.stage == Stage.CLUSTER, Job.finished_at.is_(None)
                ),
            ),
            "runs": _runs(session),
            "ended_age_seconds": max(_ended_jobs().age_seconds(), _ended_runs().age_seconds()),
            "failed_jobs": _failed_jobs(session),
            "failing_schedules": session.scalar(
                select(func.count()).where(FlowRow.schedule_error_at.is_not(None), ~FlowRow.paused)
            )
            or 0,
            "heartbeat_ages": heartbeats.ages(session),
            "cluster": cluster_health.read(session, settings().cluster_name),
        }
        plugins = session.execute(select(Plugin.key, Feature.enabled).join(Feature).order_by(Plugin.key)).all()
    recorded["up_seconds"] = up_seconds()
    recorded["plugins"] = tuple(key for key, _ in plugins)
    try:
        queues = read_queues()
    except RedisError as error:
        log.warning("queues not read: Redis is unavailable", error=str(error))
        return Status(**recorded, queues=None, circuits={})
    circuits = {key: health for key, enabled in plugins if enabled and (health := client().health(key))}
    return Status(**recorded, queues=queues, circuits=circuits)


def up_seconds() -> float:
    """How long this process has been up. All processes of an installation are usually started together."""
    return time.monotonic() - _STARTED


def _live(session: Session) -> dict[tuple[str, str], int]:
    rows = session.execute(
        select(Job.state, Job.stage, func.count()).where(Job.finished_at.is_(None)).group_by(Job.state, Job.stage)
    )
    return {(state, stage): count for state, stage, count in rows}


class _EndedCounts:
    """How many jobs or runs are in each final state, counted at most once in COUNTED_SECONDS."""

    def __init__(self, state: InstrumentedAttribute[str], final: Iterable[str]) -> None:
        self._query = select(state, func.count()).where(state.in_(list(final))).group_by(state)
        self._lock = threading.Lock()
        self._counted_at = float("-inf")
        self._counts: dict[str, int] = {}

    def __call__(self, session: Session) -> dict[str, int]:
        with self._lock:
            if time.monotonic() - self._counted_at > COUNTED_SECONDS:
                self._counts = {str(state): int(count) for state, count in session.execute(self._query)}
                self._counted_at = time.monotonic()
            return self._counts

    def age_seconds(self) -> float:
        """How long ago they were counted."""
        with self._lock:
            return time.monotonic() - self._counted_at


@part
def _ended_jobs() -> _EndedCounts:
    return _EndedCounts(Job.state, [state for state in JobState if state.final])


@part
def _ended_runs() -> _EndedCounts:
    return _EndedCounts(RunRow.state, [state for state in RunState if state.final])


def _runs(session: Session) -> dict[str, int]:
    live = [state for state in RunState if not state.final]
    rows = session.execute(select(RunRow.state, func.count()).where(RunRow.state.in_(live)).group_by(RunRow.state))
    counts = {state.value: 0 for state in RunState} | _ended_runs()(session)
    return counts | {str(state): int(count) for state, count in rows}


def _failed_jobs(session: Session) -> dict[str, FailedJobs]:
    last = func.array_agg(aggregate_order_by(TrailRow.reason, TrailRow.id.desc()))[1]
    rows = session.execute(
        select(TrailRow.plugin_key, func.count(TrailRow.job_id.distinct()), last)
        .where(TrailRow.outcome == TrailOutcome.FAILED, TrailRow.started_at > func.now() - FAILED_JOBS_SPAN)
        .group_by(TrailRow.plugin_key)
        .order_by(TrailRow.plugin_key)
    )
    return {key: FailedJobs(count, reason) for key, count, reason in rows}


def _steps(session: Session) -> tuple[StepGroup, ...]:
    condition = case(
        (Step.lease_until > func.now(), StepCondition.HELD.value),
        (Step.not_before > func.now(), StepCondition.POSTPONED.value),
        (sweep.DUE, StepCondition.OVERDUE.value),
        else_=StepCondition.WAITING.value,
    ).label("condition")
    # A lease owner is `<node name of the worker>/<unique ID of the claim>`.
    worker = case((Step.lease_until > func.now(), func.split_part(Step.lease_owner, "/", 1)), else_="").label("worker")
    rows = session.execute(
        select(Step.stage, condition, worker, func.count(), _age(func.min(Step.pending_since)))
        .group_by(Step.stage, condition, worker)
        .order_by(Step.stage, condition, worker)
    )
    return tuple(
        StepGroup(stage, StepCondition(condition_), holder, count, float(age))
        for stage, condition_, holder, count, age in rows
    )


def _deliveries(session: Session) -> dict[str, Backlog]:
    rows = session.execute(
        select(Delivery.plugin_key, func.count(), _age(func.min(Delivery.created_at)))
        .where(Delivery.status == DeliveryStatus.WAITING)
        .group_by(Delivery.plugin_key)
    )
    return {key: Backlog(count, float(age)) for key, count, age in rows}


def _age(moment: Any) -> Any:
    return func.extract("epoch", func.now() - moment)


def _seconds(session: Session, query: Select[Any]) -> float:
    return max(float(session.scalar(query) or 0.0), 0.0)
