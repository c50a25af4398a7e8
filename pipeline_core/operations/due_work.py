"""Whether the ticks would find anything to do, asked for all of them by one statement, which costs less than one of them.

The conditions are those by which the ticks themselves find what is due, or weaker ones that cost less: each holds at least
whenever the tick would find something.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import BindParameter, ColumnElement, bindparam, exists, func, or_, select

from pipeline_core.database import connected
from pipeline_core.database.models import RunSignal
from pipeline_core.flows.runs import admission, attempts
from pipeline_core.flows.schedules import backfill_progress, run_creation
from pipeline_core.hooks import deliveries
from pipeline_core.jobs import cleanup, control, replicas, rollup, sweep
from pipeline_core.settings import settings

_MOMENT: BindParameter[datetime] = bindparam("moment")
_OBSERVED_BEFORE: BindParameter[timedelta] = bindparam("observed_before")
_CONDITIONS: Mapping[str, ColumnElement[bool]] = {
    "steps": exists().where(sweep.DUE),
    "deliveries": exists().where(deliveries.DUE),
    "give-up": exists().where(deliveries.WAITING),
    "suspensions": exists().where(control.TIMED_OUT),
    "retries": exists().where(replicas.RETRY_DUE),
    "reconcile": exists().where(rollup.is_stale(func.now() - _OBSERVED_BEFORE)),
    "cleanup": exists().where(cleanup.is_due(_MOMENT)),
    "flows": or_(exists().where(attempts.DUE), exists(select(RunSignal.id))),
    "admissions": exists().where(admission.WAITING),
    "schedule": exists().where(run_creation.is_due(_MOMENT)),
    "backfills": exists().where(backfill_progress.RUNNING),
}
_STATEMENT = select(*(condition.label(name) for name, condition in _CONDITIONS.items()))

TICKS = frozenset(_CONDITIONS)
"""The ticks of which it is known whether they would find anything. The others run always."""


def find(moment: datetime) -> set[str]:
    """Those of TICKS that may find something to do at this moment, by the process's clock. Raises Unavailable."""
    observed_before = timedelta(seconds=settings().reconcile_seconds)
    with connected() as connection:
        row = connection.execute(_STATEMENT, {"moment": moment, "observed_before": observed_before}).one()
    return {name for name, holds in row._mapping.items() if holds}
