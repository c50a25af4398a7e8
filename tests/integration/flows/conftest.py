"""Runs in this process: what Celery would carry is called here, and jobs do what the test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from sqlalchemy import select

from pipeline_core.database import transaction, wakeups
from pipeline_core.database.models import Job, JobDocument, RunRow, TaskAttempt, TaskRunRow
from pipeline_core.database.wakeups import FlowDue, RunDue, Wakeup
from pipeline_core.flows.runs import admission, progress
from pipeline_core.jobs import lifecycle
from pipeline_core.settings import Settings
from pipeline_core.stages.names import Stage
from pipeline_core.states import JobState

WAY = {
    JobState.SUCCEEDED: (JobState.RUNNING, JobState.SUCCEEDED),
    JobState.FAILED: (JobState.RUNNING, JobState.FAILED),
    JobState.RUNNING: (JobState.RUNNING,),
    JobState.SUSPENDED: (JobState.SUSPENDED,),
    JobState.WAITING: (JobState.WAITING,),
    JobState.STOPPED: (JobState.STOPPED,),
}


@dataclass
class Engine:
    """Carries every call that is noted, until nothing is left to be done."""

    noted: list[Wakeup] = field(default_factory=list)

    def go(self) -> None:
        while self.noted:
            match self.noted.pop(0):
                case RunDue(run_id):
                    progress.advance(run_id)
                case FlowDue(flow_id):
                    admission.admit(flow_id)

    def turn(self, run_id: str, task: str, state: JobState, *, reason: str = "") -> None:
        """The job of a task's latest attempt goes the way to this state, and the engine is notified."""
        job_id = self.jobs(run_id, task)[-1]
        for to in WAY[state]:
            with transaction() as session:
                job = lifecycle.lock(session, job_id)
                if job.state != to:
                    lifecycle.transition(session, job, to, reason=reason)
        self.go()

    def turn_in_cluster(self, job_id: str, *states: JobState, reason: str = "") -> None:
        """A job comes into its cluster and goes through these states; the engine goes on later."""
        with transaction() as session:
            job = lifecycle.lock(session, job_id)
            job.stage = Stage.CLUSTER
            for state in states:
                lifecycle.transition(session, job, state, reason=reason)

    def jobs(self, run_id: str, task: str) -> list[str]:
        """The jobs of a task's attempts."""
        with transaction() as session:
            query = select(TaskAttempt.job_id).where(TaskAttempt.run_id == run_id, TaskAttempt.key == task)
            return [job for job in session.scalars(query.order_by(TaskAttempt.attempt)) if job]

    def run(self, run_id: str) -> RunRow:
        with transaction() as session:
            return session.get_one(RunRow, run_id)

    def tasks(self, run_id: str) -> dict[str, TaskRunRow]:
        with transaction() as session:
            query = select(TaskRunRow).where(TaskRunRow.run_id == run_id).order_by(TaskRunRow.position)
            return {task.key: task for task in session.scalars(query)}

    def states(self, run_id: str) -> dict[str, str]:
        return {key: task.state for key, task in self.tasks(run_id).items()}

    def job(self, job_id: str) -> tuple[Job, JobDocument]:
        with transaction() as session:
            return session.get_one(Job, job_id), session.get_one(JobDocument, job_id)


@pytest.fixture
def engine(service_settings: Settings) -> Engine:
    made = Engine()

    def note(calls: Sequence[Wakeup]) -> None:
        made.noted += calls

    wakeups.publish_with(note)
    return made
