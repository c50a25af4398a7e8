"""The stage tasks: run the stage that the message names, and continue the chain with the next one."""

from __future__ import annotations

import uuid
from typing import Any

from celery import Task
from celery.exceptions import Ignore
from celery.signals import task_postrun

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.database.wakeups import StepDue
from pipeline_core.jobs.cursor import AlreadyAdvanced, Continue
from pipeline_core.stages.names import STAGES, Stage
from workers import chain, publish, stage_run
from workers.app import app
from workers.names import stage_task


def run_stage(task: Task[Any, Any], job_id: str, epoch: int, stage: str) -> None:
    """Run one stage of a job, if its step is still due. The outcome is committed before the chain continues."""
    progress = stage_run.run(job_id, epoch, Stage(stage), f"{task.request.hostname}/{uuid.uuid4().hex}")
    match progress:
        case AlreadyAdvanced():
            return
        case Continue(following):
            remaining: Any = task.request.chain or []
            chain.drop_until(remaining, following)
            if not remaining:
                publish.publish([StepDue(job_id, epoch, following)])
        case _ if task.request.chain:
            # Ignore prevents Celery from publishing the rest of the chain. When there is none, a return is faster than an
            # exception.
            raise Ignore


@task_postrun.connect
def _sent(args: tuple[object, ...], **_: object) -> None:
    failpoints.reach(Point.STAGE_SENT, *map(str, args))


for _stage in STAGES:
    app.task(name=stage_task(_stage), bind=True)(run_stage)
