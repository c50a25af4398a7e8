"""Claims: which worker holds the step that a job has to pass next.

A message is only a wake-up. The worker that receives it claims the step that the database says is pending, so that a message that
is delivered twice or late finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Interval, Select, bindparam, case, func, or_, select, update

from pipeline_core.database import again_if_contended, transaction
from pipeline_core.database.models import Job, JobDocument, Registry, Step, table
from pipeline_core.features import snapshot
from pipeline_core.jobs import trail_rows
from pipeline_core.settings import settings
from pipeline_core.stages.names import PLUGIN_TYPE, Stage, after
from pipeline_core.stages.outcomes import ClaimedStep, Unreachable

_STEP = table(Step)
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
    with transaction() as session:
        row = session.execute(
            _claiming(stage),
            {
                "of_job": job_id,
                "of_epoch": epoch,
                "of_stage": stage,
                "owner": owner,
                "holder": holder,
                "lease": timedelta(seconds=settings().lease_seconds),
            },
        ).one_or_none()
        if row is None:
            pending = session.execute(select(Step.epoch, Step.stage).where(Step.job_id == job_id)).one_or_none()
            return why_not_claimed((pending.epoch, Stage(pending.stage)) if pending else None, epoch, stage)
        plugins = snapshot.at(session, row.version)
        has_plugins = stage in PLUGIN_TYPE and plugins.of(PLUGIN_TYPE[stage])
        return ClaimedStep(
            job_id=job_id,
            epoch=epoch,
            stage=stage,
            owner=owner,
            claim_count=row.claim_count,
            crash_count=row.crash_count,
            kind=row.kind,
            user_id=row.user_id,
            namespace=row.namespace,
            attempt=row.attempt,
            request_id=row.request_id,
            header=row.header,
            submitted=row.document if stage is Stage.TRANSLATE else None,
            taskset=None if stage is Stage.TRANSLATE else row.document,
            factors=row.factors,
            plugins=plugins,
            unreachable=_read_unreachable(row.unreachable),
            trail=trail_rows.read(session, job_id, stage) if has_plugins else (),
        )


@cache
def _claiming(stage: Stage) -> Select[Any]:
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
            claim_count=step.claim_count + case((handed_over, 0), else_=1),
        )
        .returning(step.job_id, step.claim_count, step.crash_count, step.unreachable)
        .cte("claimed")
    )
    document = JobDocument.submitted if stage is Stage.TRANSLATE else JobDocument.taskset
    return (
        select(
            claimed.c.claim_count,
            claimed.c.crash_count,
            claimed.c.unreachable,
            Job.kind,
            Job.user_id,
            Job.namespace,
            Job.attempt,
            Job.request_id,
            JobDocument.header,
            JobDocument.factors,
            document.label("document"),
            select(Registry.version).scalar_subquery().label("version"),
        )
        .join(Job, Job.id == claimed.c.job_id)
        .join(JobDocument, JobDocument.job_id == claimed.c.job_id)
    )


def why_not_claimed(pending: tuple[int, Stage] | None, epoch: int, stage: Stage) -> AlreadyAdvanced | NotOwner:
    """Why the step of this epoch and stage could not be claimed; `pending` is the epoch and stage of the job's step."""
    if pending and pending[0] == epoch and pending[1] in after(stage):
        return AlreadyAdvanced()
    return NotOwner()


def _read_unreachable(raw: Mapping[str, Any]) -> dict[str, Unreachable]:
    return {
        key: Unreachable(**{**value, "since": datetime.fromisoformat(value["since"])}) for key, value in raw.items()
    }
