"""Numbers about the service that its record tells: how many jobs, steps and deliveries stand where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from pipeline_core import canaries
from pipeline_core.database import transaction
from pipeline_core.database.models import Cleanup, Delivery, DeliveryStatus, Job, Step
from pipeline_core.stages.order import STAGES
from pipeline_core.states import JobState


@dataclass(frozen=True, slots=True)
class Gauge:
    """One number for each combination of its labels' values."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Mapping[tuple[str, ...], float]


def read() -> list[Gauge]:
    """All gauges, at this moment. Raises Unavailable."""
    with transaction() as session:
        return [
            Gauge(
                "pipeline_jobs",
                "Jobs by state.",
                ("state",),
                _by(session, [state.value for state in JobState], select(Job.state, func.count()).group_by(Job.state)),
            ),
            Gauge(
                "pipeline_steps_owed",
                "Jobs that owe a stage, by stage.",
                ("stage",),
                _by(session, [stage.value for stage in STAGES], select(Step.stage, func.count()).group_by(Step.stage)),
            ),
            Gauge(
                "pipeline_oldest_step_seconds",
                "Age of the longest owed step.",
                (),
                {(): _age(session, select(func.min(Step.owed_since)))},
            ),
            Gauge(
                "pipeline_cleanups_pending",
                "Ended jobs of which something may be left in the cluster.",
                (),
                {(): _number(session, select(func.count()).where(Job.cleanup == Cleanup.PENDING))},
            ),
            *_deliveries(session),
            Gauge(
                "pipeline_canary_age_seconds",
                "Time since a message was last seen to arrive, by queue.",
                ("queue",),
                {(queue,): age for queue, age in canaries.ages(session).items()},
            ),
        ]


def _deliveries(session: Session) -> list[Gauge]:
    waiting = Delivery.status == DeliveryStatus.WAITING
    per_plugin = select(Delivery.plugin_key, func.count()).where(waiting).group_by(Delivery.plugin_key)
    return [
        Gauge(
            "pipeline_deliveries_waiting",
            "Deliveries that a subscriber has not acknowledged yet, by plugin.",
            ("plugin",),
            _by(session, [], per_plugin),
        ),
        Gauge(
            "pipeline_delivery_lag_seconds",
            "How long the delivery that is most overdue is so.",
            (),
            {(): max(_age(session, select(func.min(Delivery.next_at)).where(waiting)), 0.0)},
        ),
    ]


def _by(session: Session, always: list[str], query: Select[str, int]) -> dict[tuple[str, ...], float]:
    """The query's counts; those of `always` are there when they are 0, too."""
    samples: dict[tuple[str, ...], float] = {(name,): 0.0 for name in always}
    return samples | {(name,): float(count) for name, count in session.execute(query)}


def _age(session: Session, query: Select[Any]) -> float:
    oldest = query.scalar_subquery()
    return float(session.scalar(select(func.extract("epoch", func.now() - oldest))) or 0.0)


def _number(session: Session, query: Select[Any]) -> float:
    return float(session.scalar(query) or 0)
