"""The stage tasks: claim the step, run the stage, finish the step, and continue the chain with the next stage."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
from celery import Task
from celery.exceptions import Ignore, SoftTimeLimitExceeded
from celery.signals import task_postrun

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.errors import Unavailable
from pipeline_core.jobs import cleanup, cursor
from pipeline_core.jobs.cursor import AlreadyAdvanced, Continue, LeaseLost, NotOwner, Parked
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.settings import settings
from pipeline_core.stages import bind, decorate, factors, gates, launch, translate
from pipeline_core.stages.names import STAGES, Stage
from pipeline_core.stages.outcomes import ClaimedStep, Crash, Fail, Outcome, Postpone
from workers import chain
from workers.app import app
from workers.lease_renewal import renewing
from workers.names import stage_task

log = structlog.get_logger(__name__)

CRASH_PAUSE = 5.0
"""Seconds until a stage is retried that ended with an unexpected exception."""

RUN: dict[Stage, Callable[[ClaimedStep], Outcome]] = {
    Stage.TRANSLATE: translate.run,
    Stage.FACTORS: factors.run,
    Stage.GATES: lambda step: gates.run(step, partial(cursor.renew, step)),
    Stage.DECORATE: decorate.run,
    Stage.BIND: bind.run,
    Stage.LAUNCH: launch.run,
}


def run_stage(task: Task[Any, Any], job_id: str, epoch: int, stage: str) -> None:
    """Run one stage of a job, if its step is still due. The outcome is committed before the chain continues."""
    structlog.contextvars.bind_contextvars(job_id=job_id, stage=stage, epoch=epoch)
    started = time.monotonic()
    try:
        step = cursor.claim(job_id, epoch, Stage(stage), owner=f"{task.request.hostname}/{uuid.uuid4().hex}")
        match step:
            case AlreadyAdvanced():
                return
            case NotOwner():
                raise Ignore
        structlog.contextvars.bind_contextvars(request_id=step.request_id)
        try:
            with renewing(step):
                failpoints.reach(Point.STAGE_CLAIMED, stage, step.name)
                result = outcome(step)
            progress = cursor.finish(step, result)
        except (Unavailable, LeaseLost, SoftTimeLimitExceeded):
            raise
        except Exception as error:  # noqa: BLE001 - `crashed` logs it
            result = crashed(step, error)
            progress = cursor.finish(step, result)
        failpoints.reach(Point.STAGE_FINISHED, stage, step.name)
    except Unavailable as error:
        # The step stays due: its lease expires, or was never taken, and a tick publishes it again.
        log.warning("stage postponed: the database is unavailable", error=error.message)
        raise Ignore from error
    except LeaseLost:
        log.info("stage result dropped: the job was stopped, or another worker took the step over")
        if stage == Stage.LAUNCH:
            cleanup.delete_late_launch(job_id)
        raise Ignore from None
    totals().observe(Metric.STAGE_SECONDS, (stage, type(result).__name__.lower()), time.monotonic() - started)
    match progress:
        case Continue(following):
            log.info("stage done", next=str(following))
            remaining: Any = task.request.chain or []
            chain.drop_until(remaining, following)
            if not remaining:
                chain.publish(job_id, epoch, chain.from_stage(following))
        case Parked(parked_epoch, stages):
            failpoints.reach(Point.CHAIN_PARKING, step.name)
            chain.park(job_id, parked_epoch, stages)
            failpoints.reach(Point.CHAIN_PARKED, step.name)
            raise Ignore
        case _ if task.request.chain:
            # Ignore prevents Celery from publishing the rest of the chain. When there is none, a return is faster than an
            # exception.
            raise Ignore


@task_postrun.connect
def _sent(args: tuple[object, ...], **_: object) -> None:
    failpoints.reach(Point.STAGE_SENT, *map(str, args))


def outcome(step: ClaimedStep) -> Outcome:
    """Run the stage. Fails the job when a worker died at this step PIPELINE_MAX_CLAIMS times."""
    if step.claim_count > settings().max_claims:
        claims = step.claim_count - 1
        return Fail(trail=(), reason=f"The stage {step.stage} was begun {claims} times and its worker ended each time.")
    try:
        result = RUN[step.stage](step)
        failpoints.reach(Point.STAGE_ANSWERED, step.stage, step.name)
        return result
    except SoftTimeLimitExceeded:
        return Postpone(reason=f"The stage {step.stage} ran out of time and will be retried.", seconds=5.0)


def crashed(step: ClaimedStep, error: Exception) -> Crash | Fail:
    """Log an unexpected exception, and fail the job when the stage has been begun PIPELINE_MAX_CLAIMS times.

    The reason has the exception's type, and an ID with which its traceback is found in the log; never its text, which may
    have secrets.
    """
    error_id = uuid.uuid4().hex[:12]
    log.exception("stage ended with an unexpected error", error_id=error_id, claims=step.claim_count)
    what = f"an unexpected error, {type(error).__name__}; the worker's log has it with error_id {error_id}"
    if step.claim_count >= settings().max_claims:
        times = f"{step.claim_count} times, the last time with" if step.claim_count > 1 else "with"
        return Fail(trail=(), reason=f"The stage {step.stage} failed {times} {what}.")
    return Crash(reason=f"The stage {step.stage} failed with {what}. It will be retried.", seconds=CRASH_PAUSE)


for _stage in STAGES:
    app.task(name=stage_task(_stage), bind=True)(run_stage)
