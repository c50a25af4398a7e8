"""What is in the feed about jobs beside their events: that a job goes on to another stage, and what it waits for in one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from pipeline_core.database.models import FeedChange, FeedKind, Job, table
from pipeline_core.jobs import changes

_INSERT = insert(table(FeedChange))


def note_stage(session: Session, job: Job, moment: datetime) -> None:
    """Put the present stage and reason of a locked job into the feed; where changes are gathered, in their statement."""
    row = of_stage(job, moment)
    if gathered := changes.gathered(session):
        gathered.feed.append({"job_id": job.id, **row})
    else:
        session.execute(_INSERT, row)


def of_stage(job: Job, moment: datetime) -> dict[str, Any]:
    """The row that says at which stage a job is, and what it waits for."""
    return {
        "kind": FeedKind.STAGE,
        "user_id": job.user_id,
        "occurred_at": moment,
        "document": shown_of_stage(job, str(job.stage), job.reason, job.namespace),
    }


def shown_of_stage(job: Any, stage: Any, reason: Any, namespace: Any) -> dict[str, Any]:
    """What the feed shows of a job's stage. The values may be columns, too: `job` has those of a job."""
    return {
        "jobID": job.id,
        "runID": job.run_id,
        "stage": stage,
        "reason": reason,
        "jobName": job.name,
        "jobKind": job.kind,
        "userID": job.user_id,
        "namespace": namespace,
    }
