"""The statements by which a step is claimed, held and moved. Each is built once: that takes as long as to execute it."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Interval, Select, bindparam, func, or_, select, update

from pipeline_core.database.models import Job, JobDocument, Registry, Step, table
from pipeline_core.stages.order import Stage

_STEP = table(Step)

HELD = (
    select(Job, Step.lease_owner)
    .join(Step, Step.job_id == Job.id)
    .where(Job.id == bindparam("of_job"), Job.epoch == bindparam("of_epoch"), Step.stage == bindparam("of_stage"))
    .with_for_update()
)
"""The job and its step, both locked, and who holds the step."""

MOVE = (
    update(_STEP)
    .where(_STEP.c.job_id == bindparam("of_job"))
    .values(
        stage=bindparam("to_stage"),
        owed_since=bindparam("since"),
        due_at=bindparam("due"),
        not_before=None,
        sends=0,
        claims=0,
        lease_owner=None,
        lease_until=None,
        unreachable={},
    )
)
"""The step becomes that of another stage, and nobody's."""


@cache
def claiming(stage: Stage) -> Select[Any]:
    """The statement that takes the lease of a step and reads all that its stage needs to know."""
    step = _STEP.c
    lease_end = func.now() + bindparam("lease", type_=Interval)
    claimed = (
        update(_STEP)
        .where(
            step.job_id == bindparam("of_job"),
            step.epoch == bindparam("of_epoch"),
            step.stage == bindparam("of_stage"),
            or_(step.lease_until.is_(None), step.lease_until < func.now()),
            or_(step.not_before.is_(None), step.not_before <= func.now()),
        )
        .values(lease_owner=bindparam("owner"), lease_until=lease_end, due_at=lease_end, claims=step.claims + 1)
        .returning(step.job_id, step.claims, step.unreachable)
        .cte("claimed")
    )
    document = JobDocument.submitted if stage is Stage.TRANSLATE else JobDocument.taskset
    return (
        select(
            claimed.c.claims,
            claimed.c.unreachable,
            Job.kind,
            Job.user_id,
            Job.namespace,
            Job.attempt,
            Job.request_id,
            JobDocument.header,
            JobDocument.factors,
            document.label("job"),
            select(Registry.version).scalar_subquery().label("version"),
        )
        .join(Job, Job.id == claimed.c.job_id)
        .join(JobDocument, JobDocument.job_id == claimed.c.job_id)
    )
