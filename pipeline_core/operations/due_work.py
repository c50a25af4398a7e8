"""Whether the ticks would find anything to do, asked for all of them by one statement, which costs less than one of them.

Each condition holds at least whenever the tick would find something; it may hold at other times too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Select, bindparam, exists, func, or_, select

from pipeline_core.database import connected
from pipeline_core.database.models import (
    Backfill,
    BackfillState,
    Cleanup,
    Delivery,
    DeliveryStatus,
    FlowRow,
    Job,
    RunRow,
    RunSignal,
    Step,
    TaskAttempt,
)
from pipeline_core.database.models.base import table
from pipeline_core.flows.runs.admission import OPEN
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage

TICKS = frozenset(
    (
        "steps",
        "deliveries",
        "give-up",
        "suspensions",
        "retries",
        "reconcile",
        "cleanup",
        "flows",
        "admissions",
        "schedule",
        "backfills",
    )
)
"""The ticks of which it is known whether they would find anything. The others run always."""


def find(moment: datetime) -> set[str]:
    """Those of TICKS that may find something to do at this moment, by the clock of schedules. Raises Unavailable."""
    observed_before = timedelta(seconds=settings().reconcile_seconds)
    with connected() as connection:
        row = connection.execute(_statement(), {"moment": moment, "observed_before": observed_before}).one()
    return {name for name, holds in row._mapping.items() if holds}


@cache
def _statement() -> Select[*tuple[Any, ...]]:
    job, step, delivery = table(Job), table(Step), table(Delivery)
    attempt, signal, run = table(TaskAttempt), table(RunSignal), table(RunRow)
    flow, backfill = table(FlowRow), table(Backfill)
    moment: BindParameter[datetime] = bindparam("moment")
    observed_before: BindParameter[timedelta] = bindparam("observed_before")
    found: dict[str, ColumnElement[bool]] = {
        "steps": exists().where(step.c.due_at <= func.now()),
        "deliveries": exists().where(delivery.c.status == DeliveryStatus.WAITING, delivery.c.next_at <= func.now()),
        "give-up": exists().where(delivery.c.status == DeliveryStatus.WAITING),
        "suspensions": exists().where(job.c.suspended_until <= func.now()),
        "retries": exists().where(job.c.retry_at <= func.now()),
        "reconcile": exists().where(
            job.c.stage == Stage.CLUSTER,
            job.c.finished_at.is_(None),
            job.c.last_observed_at < func.now() - observed_before,
        ),
        "cleanup": exists().where(job.c.cleanup == Cleanup.PENDING),
        "flows": or_(
            exists().where(attempt.c.pending, attempt.c.due_at <= func.now()),
            exists(select(signal.c.id)),
        ),
        "admissions": exists().where(run.c.state.in_(OPEN)),
        "schedule": exists().where(~flow.c.paused, flow.c.next_at <= moment),
        "backfills": exists().where(backfill.c.state == BackfillState.RUNNING),
    }
    return select(*(holds.label(name) for name, holds in found.items()))
