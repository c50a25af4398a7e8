"""The statement with which a job goes on to its next stage: one round trip, planned once for each session.

It writes nothing unless the owner still holds the step, and the plugins by which the next stage was chosen are still registered.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import (
    CTE,
    JSON,
    Boolean,
    ColumnElement,
    DateTime,
    Interval,
    Text,
    bindparam,
    case,
    cast,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from pipeline_core.common.clock import now
from pipeline_core.database import execute_alone
from pipeline_core.database.engine import to_json
from pipeline_core.database.models import FeedChange, FeedKind, Job, JobDocument, Registry, Step, TrailRow, table
from pipeline_core.database.prepared import Prepared
from pipeline_core.database.rows import Passed
from pipeline_core.jobs import feed_changes, trail_rows
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep

_JOB, _STEP, _DOCUMENT, _TRAIL = table(Job), table(Step), table(JobDocument), table(TrailRow)
_FEED = table(FeedChange)


def write(step: ClaimedStep, outcome: Advance, stage: Stage, registry_version: int, *, carried: bool) -> bool:
    """Write the outcome of a claimed step, and make `stage` the job's next step, which its owner has claimed if it is `carried`.

    Returns False, and writes nothing, when this owner no longer holds the step, or the registry has another version. Raises
    Unavailable and Contended.
    """
    parameters: dict[str, Any] = {
        "of_job": step.job_id,
        "of_epoch": step.epoch,
        "of_stage": step.stage,
        "owner": step.owner,
        "registry_version": registry_version,
        "next_stage": stage,
        "carried": carried,
        "moment": now(),
        "lease": timedelta(seconds=settings().lease_seconds),
        "wake_after": timedelta(seconds=settings().wake_after_seconds),
        "new_namespace": outcome.namespace,
        "new_taskset": None if outcome.taskset is None else to_json(outcome.taskset),
        "new_factors": None if outcome.factors is None else to_json(outcome.factors),
    }
    entries = _ENTRIES.parameters(trail_rows.rows_of(step, outcome.trail))
    ((number,),) = execute_alone(_ADVANCING, {**parameters, **entries})
    return bool(number)


def _held() -> CTE:
    version = select(table(Registry).c.version).scalar_subquery()
    return (
        select(*(_JOB.c[name] for name in ("id", "run_id", "name", "kind", "user_id", "namespace")))
        .join(_STEP, _STEP.c.job_id == _JOB.c.id)
        .where(
            _JOB.c.id == bindparam("of_job"),
            _JOB.c.epoch == _STEP.c.epoch,
            _STEP.c.epoch == bindparam("of_epoch"),
            _STEP.c.stage == bindparam("of_stage"),
            _STEP.c.lease_owner == bindparam("owner"),
            version == bindparam("registry_version"),
        )
        .with_for_update(of=(_JOB, _STEP), key_share=True)
        .cte("held")
    )


def _moved(held: CTE) -> CTE:
    carried = bindparam("carried", type_=Boolean)
    lease_end = func.now() + bindparam("lease", type_=Interval)
    values: dict[str, Any] = {
        "stage": bindparam("next_stage"),
        "pending_since": bindparam("moment"),
        "claim_count": case((carried, literal_column("1")), else_=literal_column("0")),
        "due_at": case((carried, lease_end), else_=func.now() + bindparam("wake_after", type_=Interval)),
        "lease_owner": case((carried, _STEP.c.lease_owner)),
        "lease_until": case((carried, lease_end)),
        "not_before": None,
        "publish_count": 0,
        "crash_count": 0,
        "unreachable": literal_column("'{}'"),
    }
    return update(_STEP).where(_STEP.c.job_id == held.c.id).values(values).cte("moved")


def _of_jobs(held: CTE) -> CTE:
    values = {"stage": bindparam("next_stage"), "reason": "", "namespace": _namespace(_JOB.c.namespace)}
    return update(_JOB).where(_JOB.c.id == held.c.id).values(values).cte("of_jobs")


def _of_documents(held: CTE) -> CTE:
    new: dict[str, ColumnElement[Any]] = {
        name: cast(bindparam(f"new_{name}", type_=Text), JSON) for name in ("taskset", "factors")
    }
    return (
        update(_DOCUMENT)
        .where(_DOCUMENT.c.job_id == held.c.id, or_(*(value.is_not(None) for value in new.values())))
        .values({name: func.coalesce(value, _DOCUMENT.c[name]) for name, value in new.items()})
        .cte("of_documents")
    )


def _of_trail(held: CTE) -> CTE:
    rows = _ENTRIES.rows.join(held, held.c.id == _ENTRIES.column("job_id"))
    values = {**{name: _ENTRIES.column(name) for name in trail_rows.COLUMNS}, "actor": literal_column("''")}
    chosen = select(*values.values()).select_from(rows)
    return insert(_TRAIL).from_select([*values], chosen, include_defaults=False).cte("of_trail")


def _of_feed_changes(held: CTE) -> CTE:
    stage = cast(bindparam("next_stage"), Text)
    shown = feed_changes.shown_of_stage(held.c, stage, literal_column("''"), _namespace(held.c.namespace))
    named: list[ColumnElement[Any]] = []
    for name, value in shown.items():
        named += (literal_column(f"'{name}'"), value)
    values = {
        "kind": literal_column(f"'{FeedKind.STAGE}'"),
        "user_id": held.c.user_id,
        "creator": literal_column("''"),
        "document": func.json_build_object(*named),
        "occurred_at": cast(bindparam("moment"), DateTime(timezone=True)),
    }
    return insert(_FEED).from_select([*values], select(*values.values()), include_defaults=False).cte("of_feed_changes")


def _namespace(present: ColumnElement[str]) -> ColumnElement[str]:
    return func.coalesce(cast(bindparam("new_namespace"), Text), present)


def _advancing() -> Prepared:
    held = _held()
    written = (_moved(held), _of_jobs(held), _of_documents(held), _of_trail(held), _of_feed_changes(held))
    return Prepared(select(func.count()).select_from(held).add_cte(*written))


_ENTRIES = Passed("entries", (_TRAIL.c[name] for name in trail_rows.COLUMNS))
_ADVANCING = _advancing()
