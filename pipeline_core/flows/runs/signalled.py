"""A run with its signals and the states of the jobs that they name, all read by one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from pipeline_core.database import connected
from pipeline_core.database.models import Cleanup, RunRow
from pipeline_core.database.prepared import Prepared
from pipeline_core.states import JobState

_READ = Prepared(
    text("""
    SELECT runs.id, runs.flow_id, runs.trigger, runs.execution_date, runs.state, runs.reason, runs.blocked_by,
        runs.tasks_version, runs.creator, runs.runner, runs.created_at, runs.started_at, runs.finished_at,
        EXISTS (SELECT FROM task_attempts WHERE task_attempts.run_id = runs.id AND task_attempts.pending) AS pending,
        signal.id AS signal_id, signal.job_id = '' AS start_more, task_attempts.key, task_attempts.attempt, jobs.id AS job_id,
        jobs.state AS job_state, jobs.reason AS job_reason, jobs.started_at AS job_started_at,
        jobs.finished_at AS job_finished_at,
        jobs.cleanup IS NOT DISTINCT FROM CAST(:cleanup_pending AS text) AND jobs.kept_until IS NULL AS ending,
        jobs.state = CAST(:succeeded AS text)
            AND EXISTS (SELECT FROM job_results WHERE job_results.job_id = jobs.id) AS has_results
    FROM runs
    LEFT JOIN LATERAL (
        SELECT run_signals.id, run_signals.job_id FROM run_signals WHERE run_signals.run_id = runs.id
        ORDER BY run_signals.id LIMIT 500
    ) AS signal ON true
    LEFT JOIN jobs ON jobs.id = signal.job_id
    LEFT JOIN task_attempts ON task_attempts.job_id = jobs.id AND task_attempts.run_id = runs.id
    WHERE runs.id = CAST(:run_id AS varchar)
    ORDER BY jobs.finished_at, task_attempts.key
    """)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskJob:
    """The job of an attempt of a task. `has_results`: it has succeeded, and its results are stored; `ending`: it has ended, but
    something of it may still run in its cluster."""

    id: str
    key: str
    attempt: int
    state: JobState
    reason: str
    started_at: datetime | None
    finished_at: datetime | None
    has_results: bool
    ending: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SignalledRun:
    """A run. `signals` are its oldest ones: IDs, each with the job that it names, if there still is one; `jobs` are those jobs of
    its tasks, in the order in which they have ended. `start_more`: a signal says that more of its tasks may start; `pending`: it
    has attempts to submit or to stop."""

    columns: Mapping[str, Any]
    signals: Mapping[int, str | None]
    jobs: Sequence[TaskJob]
    start_more: bool
    pending: bool

    def row(self) -> RunRow:
        """A row of its own, with the columns that a change of a run needs."""
        return RunRow(**self.columns)

    @property
    def without_results(self) -> list[str]:
        """The jobs that have succeeded, and whose results are not stored."""
        return [job.id for job in self.jobs if job.state is JobState.SUCCEEDED and not job.has_results]


def read(run_id: str) -> SignalledRun | None:
    """The run; None if there is none. Raises Unavailable."""
    with connected() as connection:
        parameters = {"run_id": run_id, "succeeded": JobState.SUCCEEDED, "cleanup_pending": Cleanup.PENDING}
        rows = _READ.execute(connection, parameters).all()
    if not rows:
        return None
    named = {row.job_id: row for row in rows if row.key is not None}
    return SignalledRun(
        columns=dict(zip(rows[0]._fields[: rows[0]._fields.index("pending")], rows[0], strict=False)),
        signals={row.signal_id: row.job_id for row in rows if row.signal_id is not None},
        jobs=[
            TaskJob(
                id=row.job_id,
                key=row.key,
                attempt=row.attempt,
                state=JobState(row.job_state),
                reason=row.job_reason,
                started_at=row.job_started_at,
                finished_at=row.job_finished_at,
                has_results=row.has_results,
                ending=row.ending,
            )
            for row in named.values()
        ],
        start_more=any(row.start_more for row in rows),
        pending=rows[0].pending,
    )
