"""One run of a stage of a job: claim the step, run the stage, finish the step."""

from __future__ import annotations

import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeVar

import structlog
from celery.worker import state

from pipeline_core.common import failpoints, tracing
from pipeline_core.common.failpoints import Point
from pipeline_core.errors import Unavailable
from pipeline_core.jobs import claims, cleanup, cursor, leases
from pipeline_core.jobs.claims import AlreadyAdvanced, NotOwner
from pipeline_core.jobs.cursor import Continue, Parked, Progress
from pipeline_core.jobs.leases import LeaseLost
from pipeline_core.jobs.trials import Trial, trial
from pipeline_core.metrics.totals import Metric, totals
from pipeline_core.runtime import part
from pipeline_core.settings import settings
from pipeline_core.stages import bind, decorate, factors, gates, launch, shadows, translate
from pipeline_core.stages.calls import first_plugins
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import ClaimedStep, Crash, Fail, NoPlace, Outcome
from pipeline_core.stages.shares import ALONE, SLOW_SECONDS, Key, Waiting, keys_of, shares
from workers import chain, processes, questions
from workers.lease_renewal import lease_renewal

log = structlog.get_logger(__name__)

Of = TypeVar("Of", bound=Outcome)

RUN: dict[Stage, Callable[[ClaimedStep], Outcome]] = {
    Stage.TRANSLATE: translate.run,
    Stage.FACTORS: factors.run,
    Stage.GATES: lambda step: gates.run(step, partial(leases.renew, step)),
    Stage.DECORATE: decorate.run,
    Stage.BIND: bind.run,
    Stage.LAUNCH: launch.run,
}
CRASH_PAUSE = 5.0
"""Seconds until a stage is retried that ended with an unexpected exception."""
SLOW_TURNS = 2
"""Of the steps that waited for a place or long for their plugins, and those after them, so many are claimed or finished at a
time."""


@part
def slow_turns() -> threading.Semaphore:
    """Held while such a step is claimed or finished. They come in bursts, as many at a time as a slow plugin has calls; all at
    once they would share the interpreter with a quick step, which would wait for each of them again and again."""
    return threading.Semaphore(SLOW_TURNS)


def run(
    job_id: str,
    epoch: int,
    stage: Stage,
    owner: str,
    *,
    carries: Collection[Stage] = (),
    carried: Callable[[Stage], AbstractContextManager[None]] = lambda stage: nullcontext(),
    take_from: str = "",
    waited: bool = False,
) -> Progress | AlreadyAdvanced | None:
    """Run one stage of a job, if its step is still due, and those after it that this worker `carries` on with.

    The outcomes are committed when this returns. `owner` is a name that is unique to this call. Each stage after the first
    is run within `carried(stage)`. None: there was nothing to do, or its result is not known here. With `take_from`, the step's
    present owner, this process runs nothing else, and no other is started for the step. `waited`: the step waited for a place,
    and takes turns with others when it is claimed.
    """
    structlog.contextvars.bind_contextvars(job_id=job_id, stage=str(stage), epoch=epoch)
    try:
        with slow_turns() if waited else nullcontext():
            step = claims.claim(job_id, epoch, stage, owner, holder=take_from)
        match step:
            case AlreadyAdvanced():
                return step
            case NotOwner():
                return None
        structlog.contextvars.bind_contextvars(request_id=step.request_id)
        tracing.bind(step.traceparent)
        if take_from:
            return _run_claimed(step, (), time.monotonic())
        began = time.monotonic()
        progress = _run_in_place(step, carries, began)
        while isinstance(progress, Continue) and progress.claimed:
            stage = progress.stage
            structlog.contextvars.bind_contextvars(stage=str(stage))
            failpoints.reach(Point.STAGE_CARRIED, stage, step.name)
            with carried(stage):
                progress = _run_in_place(progress.claimed, carries, began)
        return progress
    except Unavailable as error:
        # The step stays due: its lease expires, or was never taken, and a tick publishes it again.
        log.warning("stage postponed: the database is unavailable", error=error.message)
    except LeaseLost:
        _dropped(job_id, stage)
    finally:
        shares().leave(owner)
    return None


def _run_in_place(step: ClaimedStep, carries: Collection[Stage], began: float) -> Progress | None:
    """Run the stage if the step gets a place; otherwise release it, and let it wait for one."""
    tried_alone = trial(step.claim_count, settings().max_claims) is Trial.ALONE
    keys = ALONE if tried_alone else first_keys(step)
    if not shares().enter(step.owner, keys):
        leases.release(step)
        _wait(step, keys)
        return None
    if tried_alone:
        _run_alone(step)
        return None
    return _run_claimed(step, carries, began)


def first_keys(step: ClaimedStep) -> frozenset[Key]:
    """The keys of the place that the step needs to begin."""
    return keys_of(step.user_id, first_plugins(step), cluster=step.stage is Stage.LAUNCH)


def next_waiting() -> Waiting | None:
    """The next step that waits for a place of this process and would get one now; none when the process is being stopped."""
    return None if stopping() else shares().next()


def stopping() -> bool:
    """Whether the worker was asked to stop, and begins nothing any more."""
    return state.should_stop is not None or state.should_terminate is not None


def _wait(step: ClaimedStep, keys: frozenset[Key]) -> None:
    log.debug("step waits for a place in the worker")
    shares().wait(Waiting(step.job_id, step.epoch, step.stage), keys)


def _run_claimed(step: ClaimedStep, carries: Collection[Stage], began: float) -> Progress:
    """Run the stage and finish the step. `began` is when the thread began with the job, by the monotonic clock."""
    started = time.monotonic()
    result: Outcome
    try:
        with ExitStack() as turn:
            with lease_renewal().holding(step):
                failpoints.reach(Point.STAGE_CLAIMED, step.stage, step.name)
                result = outcome(step, RUN[step.stage])
                if time.monotonic() - began >= SLOW_SECONDS:
                    turn.enter_context(slow_turns())
            progress = cursor.finish(step, result, () if stopping() else carries)
    except (Unavailable, LeaseLost):
        raise
    except Exception as error:  # noqa: BLE001 - `crashed` logs it
        result = crashed(step, error)
        progress = cursor.finish(step, result)
    failpoints.reach(Point.STAGE_FINISHED, step.stage, step.name)
    totals().observe(Metric.STAGE_SECONDS, (step.stage, type(result).__name__.lower()), time.monotonic() - started)
    publish_shadows(step, result)
    if isinstance(result, NoPlace):
        # Its gates that have answered are written.
        _wait(step, keys_of(step.user_id, [result.plugin]))
    match progress:
        case Continue(following):
            log.info("stage done", next=str(following))
        case Parked(parked_epoch, stages):
            failpoints.reach(Point.CHAIN_PARKING, step.name)
            chain.park(step.job_id, parked_epoch, stages)
            failpoints.reach(Point.CHAIN_PARKED, step.name)
    return progress


def publish_shadows(step: ClaimedStep, result: Outcome) -> None:
    """Have the shadows asked about what has just been committed. Waits for nothing, and never raises."""
    try:
        if due := shadows.due(step, result):
            questions.put(due)
    except Exception:
        log.exception("shadows are not asked: unexpected error")


def finish_launch(step: ClaimedStep, result: Outcome) -> None:
    """Write the outcome of a launch by itself. Raises Unavailable."""
    try:
        cursor.finish(step, result)
    except LeaseLost:
        _dropped(step.job_id, step.stage)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - `crashed` logs it
        try:
            cursor.finish(step, crashed(step, error))
        except LeaseLost:
            _dropped(step.job_id, step.stage)


def _dropped(job_id: str, stage: Stage) -> None:
    log.info("stage result dropped: the job was stopped, or another worker took the step over")
    if stage is Stage.LAUNCH:
        cleanup.delete_late_launch(job_id)


def outcome(step: ClaimedStep, run: Callable[[ClaimedStep], Of]) -> Of | Fail:
    """Run the stage by its function. Fails the job when a worker died at this step PIPELINE_MAX_CLAIMS times."""
    if trial(step.claim_count, settings().max_claims) is Trial.GIVEN_UP:
        claims = step.claim_count - 1
        return Fail(trail=(), reason=f"The stage {step.stage} was begun {claims} times and its worker ended each time.")
    name = f"stage {step.stage}"
    with tracing.span(name, step.traceparent, job_id=step.job_id, epoch=step.epoch, claim=step.claim_count) as span:
        result = run(step if span.traceparent == step.traceparent else replace(step, traceparent=span.traceparent))
        span.set("pipeline.outcome", type(result).__name__.lower())
    failpoints.reach(Point.STAGE_ANSWERED, step.stage, step.name)
    return result


def crashed(step: ClaimedStep, error: Exception) -> Crash | Fail:
    """Log an unexpected exception, and fail the job when the stage has raised one PIPELINE_MAX_CLAIMS times.

    The reason has the exception's type, and an ID with which its traceback is found in the log; never its text, which may
    have secrets.
    """
    error_id = uuid.uuid4().hex[:12]
    crashes = step.crash_count + 1
    log.exception("stage ended with an unexpected error", error_id=error_id, crashes=crashes)
    what = f"an unexpected error, {type(error).__name__}; the worker's log has it with error_id {error_id}"
    if crashes >= settings().max_claims:
        times = f"{crashes} times, the last time with" if crashes > 1 else "with"
        return Fail(trail=(), reason=f"The stage {step.stage} failed {times} {what}.")
    return Crash(reason=f"The stage {step.stage} failed with {what}. It will be retried.", seconds=CRASH_PAUSE)


def _run_alone(step: ClaimedStep) -> None:
    """Run the stage in a process of its own (`workers.alone`), which publishes the rest of the chain itself.

    The lease is renewed here until that process takes the step over. It has a session of its own: other steps may end this
    process, and must not end that one.
    """
    command = processes.alone(step.job_id, step.epoch, step.stage, step.owner)
    log.warning("step tried alone: workers died at it", claims=step.claim_count)
    try:
        with lease_renewal().holding(step):
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                timeout=settings().hard_limit_seconds,
                check=False,
                start_new_session=True,
            )
    except subprocess.TimeoutExpired:
        log.warning("step tried alone: it took too long and was ended")
        return
    if ended.returncode:
        log.warning("step tried alone: its process ended", status=ended.returncode)
