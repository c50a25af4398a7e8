"""Claims: which worker holds the step that a job has to pass next.

A message is only a wake-up. The worker that receives it claims the step that the database says is pending, so that a message that
is delivered twice or late finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Interval, Text, Update, bindparam, case, func, literal_column, null, or_, select, update

from pipeline_core.common.stored import known_fields
from pipeline_core.database import again_if_contended, connected, execute_alone, transaction
from pipeline_core.database.models import Job, JobDocument, Registry, Step, table
from pipeline_core.database.prepared import Prepared
from pipeline_core.features import snapshot
from pipeline_core.features.snapshot import Snapshot
from pipeline_core.jobs import leases, trail_rows
from pipeline_core.settings import settings
from pipeline_core.stages.names import PLUGIN_TYPE, Stage, after
from pipeline_core.stages.outcomes import ClaimedStep, Unreachable

_STEP, _JOB, _DOCUMENT = table(Step), table(Job), table(JobDocument)
_READ_OF_JOB = ("kind", "user_id", "namespace", "attempt", "event_sequence", "run_id", "request_id", "traceparent")
_LEASE_END = func.now() + bindparam("lease", type_=Interval)


@dataclass(frozen=True, slots=True)
class AlreadyAdvanced:
    """Not claimed: the cursor is past this stage already. The rest of the chain may continue."""


@dataclass(frozen=True, slots=True)
class NotOwner:
    """Not claimed: another worker holds the step, it is not due yet, or the message is of an older epoch. The chain ends."""


@again_if_contended
def claim(
    job_id: str, epoch: int, stage: Stage, owner: str, *, holder: str = ""
) -> ClaimedStep | AlreadyAdvanced | NotOwner:
    """Take the lease of a step for `owner`, a name that is unique to this call: from `holder` too, which hands it over without
    another claim being counted. Raises Unavailable."""
    parameters = {
        "of_job": job_id,
        "of_epoch": epoch,
        "of_stage": stage,
        "owner": owner,
        "holder": holder,
        "lease": timedelta(seconds=settings().lease_seconds),
    }
    rows = execute_alone(_claiming(stage), parameters)
    if rows:
        (step,) = _claimed_steps(rows, stage, lambda row: owner)
        return step
    if not after(stage):
        return NotOwner()
    with connected() as connection:
        pending = connection.execute(select(_STEP.c.epoch, _STEP.c.stage).where(_STEP.c.job_id == job_id))
        found = pending.one_or_none()
    return why_not_claimed((found.epoch, Stage(found.stage)) if found else None, epoch, stage)


@again_if_contended
def claim_waiting(stage: Stage, most: int, owner: str) -> list[ClaimedStep]:
    """Take the leases of at most so many steps of this stage that nobody has claimed yet.

    Their messages may come later. The owner of each is `owner`, a name that is unique to this call, and the job. Steps that
    another transaction has locked are left out. Raises Unavailable.
    """
    parameters = {
        "of_stage": stage,
        "most": most,
        "owner": f"{owner}/",
        "lease": timedelta(seconds=settings().lease_seconds),
    }
    rows = execute_alone(_claiming_waiting(stage), parameters)
    return _claimed_steps(rows, stage, lambda row: f"{owner}/{row.job_id}")


def _claimed_steps(rows: Sequence[Any], stage: Stage, owner: Callable[[Any], str]) -> list[ClaimedStep]:
    """The steps that a statement has claimed, with the plugins that were registered then. Raises Unavailable."""
    try:
        return [_claimed_step(row, stage, owner(row), snapshot.of_version(row.version)) for row in rows]
    except Exception:
        # No fault of the jobs, which would fail if that counted.
        with transaction() as session:
            for row in rows:
                leases.give_back(session, row.job_id, row.epoch, owner(row))
        raise


def _claimed_step(row: Any, stage: Stage, owner: str, plugins: Snapshot) -> ClaimedStep:
    return ClaimedStep(
        job_id=row.job_id,
        epoch=row.epoch,
        stage=stage,
        owner=owner,
        claim_count=row.claim_count,
        crash_count=row.crash_count,
        kind=row.kind,
        user_id=row.user_id,
        namespace=row.namespace,
        attempt=row.attempt,
        event_sequence=row.event_sequence,
        observed=row.observed,
        run_id=row.run_id,
        request_id=row.request_id,
        traceparent=row.traceparent,
        header=row.header,
        submitted=row.document if stage is Stage.TRANSLATE else None,
        taskset=None if stage is Stage.TRANSLATE else row.document,
        factors=row.factors,
        plugins=plugins,
        unreachable=_read_unreachable(row.unreachable),
        trail=trail_rows.entries(row.trail),
    )


@cache
def _claiming(stage: Stage) -> Prepared:
    """The statement that takes the lease of a step and reads all that its stage needs."""
    step = _STEP.c
    handed_over = step.lease_owner == bindparam("holder")
    claimed = (
        update(_STEP)
        .where(
            step.job_id == bindparam("of_job"),
            step.epoch == bindparam("of_epoch"),
            step.stage == bindparam("of_stage"),
            or_(step.lease_until.is_(None), step.lease_until < func.now(), handed_over),
            or_(step.not_before.is_(None), step.not_before <= func.now()),
        )
        .values(
            lease_owner=bindparam("owner"),
            lease_until=_LEASE_END,
            due_at=_LEASE_END,
            claim_count=step.claim_count + case((handed_over, literal_column("0")), else_=literal_column("1")),
        )
    )
    return _reading(claimed, stage)


@cache
def _claiming_waiting(stage: Stage) -> Prepared:
    """The same for steps that nobody has claimed, as many as `most`."""
    step = _STEP.c
    waiting = (
        select(step.job_id)
        .where(
            step.stage == bindparam("of_stage"),
            step.lease_owner.is_(None),
            step.claim_count == 0,
            step.crash_count == 0,
            step.not_before.is_(None),
        )
        .order_by(step.job_id)
        .limit(bindparam("most"))
        .with_for_update(skip_locked=True)
        .cte("waiting")
    )
    claimed = (
        update(_STEP)
        .where(step.job_id == waiting.c.job_id)
        .values(
            lease_owner=bindparam("owner", type_=Text).concat(step.job_id),
            lease_until=_LEASE_END,
            due_at=_LEASE_END,
            claim_count=1,
        )
    )
    return _reading(claimed, stage)


def _reading(claiming: Update, stage: Stage) -> Prepared:
    step = _STEP.c
    claimed = claiming.returning(step.job_id, step.epoch, step.claim_count, step.crash_count, step.unreachable)
    of_step = claimed.cte("claimed")
    document = _DOCUMENT.c.submitted if stage is Stage.TRANSLATE else _DOCUMENT.c.taskset
    trail = trail_rows.as_json(of_step.c.job_id, stage) if stage in PLUGIN_TYPE else null()
    return Prepared(
        select(
            *of_step.c,
            *(_JOB.c[name] for name in _READ_OF_JOB),
            _JOB.c.last_observed_at.is_not(None).label("observed"),
            _DOCUMENT.c.header,
            _DOCUMENT.c.factors,
            document.label("document"),
            trail.label("trail"),
            select(table(Registry).c.version).scalar_subquery().label("version"),
        )
        .join_from(of_step, _JOB, _JOB.c.id == of_step.c.job_id)
        .join(_DOCUMENT, _DOCUMENT.c.job_id == of_step.c.job_id)
    )


def why_not_claimed(pending: tuple[int, Stage] | None, epoch: int, stage: Stage) -> AlreadyAdvanced | NotOwner:
    """Why the step of this epoch and stage could not be claimed; `pending` is the epoch and stage of the job's step."""
    if pending and pending[0] == epoch and pending[1] in after(stage):
        return AlreadyAdvanced()
    return NotOwner()


def _read_unreachable(raw: Mapping[str, Any]) -> dict[str, Unreachable]:
    return {
        key: Unreachable(**{**known_fields(Unreachable, value), "since": datetime.fromisoformat(value["since"])})
        for key, value in raw.items()
    }
