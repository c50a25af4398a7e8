"""How the service stands at a moment, as its record and its Redis tell: what `/metrics` and `/v1/status` are made of.

With a million jobs and runs that have ended a reading is as fast as with none: what is live is found by partial indexes,
and the ended ones are counted once a minute.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog
from redis.exceptions import RedisError
from sqlalchemy import Select, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from pipeline_core.database import transaction
from pipeline_core.database.models import (
    Cleanup,
    Delivery,
    DeliveryStatus,
    Feature,
    Job,
    Plugin,
    Step,
    StoredFlow,
    StoredRun,
)
from pipeline_core.flows.states import RunState
from pipeline_core.operations import heartbeats, queue_probes
from pipeline_core.plugins.client import client
from pipeline_core.plugins.guard import Health
from pipeline_core.stages.order import Stage
from pipeline_core.states import JobState

log = structlog.get_logger(__name__)

COUNTED_SECONDS = 60.0
"""How old the numbers of ended jobs and runs may be."""


class Standing(StrEnum):
    """How a step that is owed stands: `held` by a worker, `postponed` until a plugin is to be asked again, `waiting` for a
    worker to take it, or `overdue`: it should have been sent again and was not."""

    HELD = "held"
    POSTPONED = "postponed"
    WAITING = "waiting"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps that stand alike; `worker` is the node name of who holds them, or empty."""

    stage: str
    standing: Standing
    worker: str
    count: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """Deliveries to one plugin that it has not acknowledged."""

    count: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Queues:
    """Messages in Redis: those that wait, by queue, and those that workers have taken and not acknowledged."""

    waiting: Mapping[str, int]
    unacknowledged: int


@dataclass(frozen=True, slots=True)
class Status:
    """`live` counts jobs by state and stage. `lag_seconds` is for how long the most overdue step is so, `unheard_seconds`
    for how long the cluster has told nothing of some launched job. `runs` counts runs of flows by state, and
    `faulty_schedules` those that are to make runs and cannot. `silent` is in seconds, by name of the sign.
    `plugins` are all that are registered, `circuits` tells of those that are enabled. `queues` is None while Redis is away,
    and `circuits` is empty then."""

    live: Mapping[tuple[str, str], int]
    ended: Mapping[str, int]
    steps: tuple[Steps, ...]
    lag_seconds: float
    deliveries: Mapping[str, Waiting]
    cleanups: int
    unheard_seconds: float
    runs: Mapping[str, int]
    faulty_schedules: int
    silent: Mapping[str, float]
    plugins: tuple[str, ...]
    circuits: Mapping[str, Health]
    queues: Queues | None

    def states(self) -> dict[str, int]:
        """Jobs by state, with the states that no job is in."""
        counts = {state.value: 0 for state in JobState} | dict(self.ended)
        for (state, _), count in self.live.items():
            counts[state] = counts.get(state, 0) + count
        return counts

    def workers(self) -> dict[str, float]:
        """For how many seconds each worker was silent, by node name."""
        return {
            name.removeprefix(heartbeats.WORKER): age
            for name, age in self.silent.items()
            if name.startswith(heartbeats.WORKER)
        }

    def canaries(self) -> dict[str, float]:
        """Seconds since a canary last came through, by queue."""
        return queue_probes.ages(self.silent)


def read(read_queues: Callable[[], Queues]) -> Status:
    """The status now. `read_queues` may raise RedisError. Raises Unavailable."""
    with transaction() as session:
        recorded: dict[str, Any] = {
            "live": _live(session),
            "ended": _ended_jobs(session),
            "steps": _steps(session),
            "lag_seconds": _seconds(session, select(_age(func.min(Step.due_at)))),
            "deliveries": _deliveries(session),
            "cleanups": session.scalar(select(func.count()).where(Job.cleanup == Cleanup.PENDING)) or 0,
            "unheard_seconds": _seconds(
                session,
                select(_age(func.min(Job.heard_at))).where(Job.stage == Stage.CLUSTER, Job.finished_at.is_(None)),
            ),
            "runs": _runs(session),
            "faulty_schedules": session.scalar(
                select(func.count()).where(StoredFlow.faulted_at.is_not(None), ~StoredFlow.paused)
            )
            or 0,
            "silent": heartbeats.silent(session),
        }
        plugins = session.execute(select(Plugin.key, Feature.enabled).join(Feature).order_by(Plugin.key)).all()
    recorded["plugins"] = tuple(key for key, _ in plugins)
    try:
        queues = read_queues()
    except RedisError as error:
        log.warning("queues not read: Redis is away", error=str(error))
        return Status(**recorded, queues=None, circuits={})
    circuits = {key: health for key, enabled in plugins if enabled and (health := client().health(key))}
    return Status(**recorded, queues=queues, circuits=circuits)


def _live(session: Session) -> dict[tuple[str, str], int]:
    rows = session.execute(
        select(Job.state, Job.stage, func.count()).where(Job.finished_at.is_(None)).group_by(Job.state, Job.stage)
    )
    return {(state, stage): count for state, stage, count in rows}


class _Ended:
    """How many there are in each of some final states, counted anew when that was too long ago."""

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

    def forget(self) -> None:
        """Count anew at the next reading."""
        self._counted_at = float("-inf")


_ended_jobs = _Ended(Job.state, [state for state in JobState if state.final])
_ended_runs = _Ended(StoredRun.state, [state for state in RunState if state.final])


def _runs(session: Session) -> dict[str, int]:
    going_on = [state for state in RunState if not state.final]
    rows = session.execute(
        select(StoredRun.state, func.count()).where(StoredRun.state.in_(going_on)).group_by(StoredRun.state)
    )
    counts = {state.value: 0 for state in RunState} | _ended_runs(session)
    return counts | {str(state): int(count) for state, count in rows}


def _steps(session: Session) -> tuple[Steps, ...]:
    standing = case(
        (Step.lease_until > func.now(), Standing.HELD.value),
        (Step.not_before > func.now(), Standing.POSTPONED.value),
        (Step.due_at <= func.now(), Standing.OVERDUE.value),
        else_=Standing.WAITING.value,
    ).label("standing")
    # An owner is a worker's node name and a mark of the try.
    worker = case((Step.lease_until > func.now(), func.split_part(Step.lease_owner, "/", 1)), else_="").label("worker")
    rows = session.execute(
        select(Step.stage, standing, worker, func.count(), _age(func.min(Step.owed_since)))
        .group_by(Step.stage, standing, worker)
        .order_by(Step.stage, standing, worker)
    )
    return tuple(
        Steps(stage, Standing(stands), holder, count, float(age)) for stage, stands, holder, count, age in rows
    )


def _deliveries(session: Session) -> dict[str, Waiting]:
    rows = session.execute(
        select(Delivery.plugin_key, func.count(), _age(func.min(Delivery.created_at)))
        .where(Delivery.status == DeliveryStatus.WAITING)
        .group_by(Delivery.plugin_key)
    )
    return {key: Waiting(count, float(age)) for key, count, age in rows}


def _age(moment: Any) -> Any:
    return func.extract("epoch", func.now() - moment)


def _seconds(session: Session, query: Select[Any]) -> float:
    return max(float(session.scalar(query) or 0.0), 0.0)
