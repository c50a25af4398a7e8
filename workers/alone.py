"""Run one stage of one job in this process, and nothing beside it: `python -m workers APP alone JOB_ID EPOCH STAGE HOLDER`.

A stage worker starts it for a step at which workers have died (`pipeline_core.jobs.trials`), and holds the step until this
process takes it over.
"""

from __future__ import annotations

import os
import socket
import uuid

from pipeline_core.common import log
from pipeline_core.database.wakeups import StepDue
from pipeline_core.jobs.cursor import Continue
from pipeline_core.settings import settings
from pipeline_core.stages.names import Stage
from workers import publish, stage_run


def main(job_id: str, epoch: int, stage: Stage, holder: str) -> None:
    """Run the stage, and publish the rest of the job's chain."""
    log.configure(settings())
    publish.install()
    owner = f"alone@{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex}"
    progress = stage_run.run(job_id, epoch, stage, owner, take_from=holder)
    if isinstance(progress, Continue):
        publish.publish([StepDue(job_id, epoch, progress.stage)])
