"""Signals: rows that say that a job of a run has changed its state, written in the transaction of the change."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from pipeline_core.database import wakeups
from pipeline_core.database.models import Job
from pipeline_core.jobs import changes, lifecycle


def listen() -> None:
    """Signal runs from now on, in this process. Every process that changes jobs calls this at its start."""
    lifecycle.on_change(signal_run)


def signal_run(session: Session, job: Job, moment: datetime) -> None:
    """Signal the run that the job is a task of, if it is one: it has to be advanced."""
    if job.run_id:
        changes.write_signals(session, [{"run_id": job.run_id, "job_id": job.id, "at": moment}])
        wakeups.after_commit(session, wakeups.RunDue(job.run_id))
