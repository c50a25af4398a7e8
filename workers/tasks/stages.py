"""The stage tasks: run the stage that the message names and those after it that this worker serves, and continue the chain with
the next one that it does not."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from celery import Task, bootsteps
from celery.signals import celeryd_after_setup, task_postrun

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.database.wakeups import StepDue
from pipeline_core.jobs.claims import AlreadyAdvanced
from pipeline_core.jobs.cursor import Continue
from pipeline_core.runtime import give
from pipeline_core.stages.names import STAGES, Stage
from pipeline_core.stages.shares import Shares, Waiting, places_of, shares
from workers import chain, launches, publish, queues, stage_run
from workers.app import app
from workers.names import stage_task
from workers.task_events import announced


def run_stage(task: Task[Any, Any], job_id: str, epoch: int, stage: str) -> None:
    """Run a stage of a job, if its step is still due, and carry on with the next ones. What they come to is committed before the
    chain continues. Then, in the place that it had, run the steps that wait for one in this process.
    """
    # Celery publishes the rest of the chain when this returns, as far as it is left there.
    request: Any = task.request
    if Stage(stage) is Stage.LAUNCH and not launches.launches().admits((job_id, epoch)):
        return
    remaining: list[dict[str, Any]] = request.chain if request.chain is not None else []

    def carried(stage: Stage) -> AbstractContextManager[None]:
        chain.drop_until(remaining, stage)
        return announced(task, stage, remaining.pop() if remaining else None)

    match stage_run.run(job_id, epoch, Stage(stage), _owner(task), carries=queues.served_stages(app), carried=carried):
        case AlreadyAdvanced():
            pass
        case Continue(following):
            chain.drop_until(remaining, following)
            if not remaining:
                publish.publish([StepDue(job_id, epoch, following)])
        case _:
            remaining.clear()
    if Stage(stage) is Stage.LAUNCH:
        left = [Waiting(*message, Stage.LAUNCH) for message in launches.launch_waiting(request.hostname)]
        if stage_run.stopping():
            _publish_again(left)
        else:
            for step in left:
                _run_waiting(task, step)
    while waiting := stage_run.next_waiting():
        if remaining:
            publish.publish([StepDue(*remaining[-1]["args"])])
            remaining.clear()
        _run_waiting(task, waiting)


def _run_waiting(task: Task[Any, Any], step: Waiting) -> None:
    carries = queues.served_stages(app)
    progress = stage_run.run(step.job_id, step.epoch, step.stage, _owner(task), carries=carries, waited=True)
    if isinstance(progress, Continue):
        publish.publish([StepDue(step.job_id, step.epoch, progress.stage)])


def _publish_again(steps: Iterable[Waiting]) -> None:
    publish.publish([StepDue(step.job_id, step.epoch, step.stage) for step in steps])


def _owner(task: Task[Any, Any]) -> str:
    return f"{task.request.hostname}/{uuid.uuid4().hex}"


@task_postrun.connect
def _sent(args: tuple[object, ...], **_: object) -> None:
    failpoints.reach(Point.STAGE_SENT, *map(str, args))


@celeryd_after_setup.connect
def _share_places(instance: Any, **_: Any) -> None:
    give(shares, Shares(places_of(instance.concurrency)))


class ReturnWaiting(bootsteps.StartStopStep):
    """Publishes the steps that wait for a place in this process again when it is stopped."""

    def stop(self, parent: Any) -> None:
        _publish_again(shares().waiting())


app.steps["worker"].add(ReturnWaiting)

for _stage in STAGES:
    app.task(name=stage_task(_stage), bind=True)(run_stage)
