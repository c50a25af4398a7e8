"""The statement that writes a run's progress: one round trip, which locks the run and checks that it is as it was read.

All writers of a run give it a new `tasks_version`. So whoever has read a run, its signals and the states of their jobs by one
statement (`signalled.py`) needs no lock while it decides what follows: if another has applied any of it meanwhile, nothing is
written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from pipeline_core.database.engine import to_json
from pipeline_core.database.prepared import Prepared
from pipeline_core.flows.runs.state_machine import RunCommand, StartMore, StopJob, SubmitJob
from pipeline_core.settings import settings

_WRITE = Prepared(
    text("""
    WITH held AS (
        SELECT id FROM runs
        WHERE id = CAST(:run_id AS varchar) AND tasks_version = CAST(:known_version AS text)
        AND cardinality(CAST(:signals AS bigint[]))
            = (SELECT count(*) FROM run_signals WHERE run_signals.id = ANY (CAST(:signals AS bigint[])))
        FOR NO KEY UPDATE SKIP LOCKED
    ), of_signals AS (
        DELETE FROM run_signals USING held WHERE run_signals.id = ANY (CAST(:signals AS bigint[]))
    ), of_tasks AS (
        UPDATE task_runs SET state = new.state, attempt = new.attempt, active = new.active,
            retries_left = new.retries_left, reason = new.reason, output = new.output,
            started_at = CASE WHEN new.fresh THEN new.started_at
                ELSE coalesce(new.started_at, task_runs.started_at) END,
            finished_at = new.finished_at
        FROM held, unnest(CAST(:key AS text[]), CAST(:state AS text[]), CAST(:attempt AS integer[]),
            CAST(:active AS boolean[]), CAST(:retries_left AS integer[]), CAST(:reason AS text[]),
            CAST(:output AS text[]), CAST(:started_at AS timestamptz[]), CAST(:finished_at AS timestamptz[]),
            CAST(:fresh AS boolean[]))
            AS new (key, state, attempt, active, retries_left, reason, output, started_at, finished_at, fresh)
        WHERE task_runs.run_id = held.id AND task_runs.key = new.key
    ), of_submitted AS (
        INSERT INTO task_attempts (run_id, key, attempt, job_id, stop, pending, due_at, bytes)
        SELECT held.id, new.key, new.attempt, new.job_id, false, new.job_id IS NULL,
            CAST(:due_at AS timestamptz), new.bytes
        FROM held, unnest(CAST(:submit_keys AS text[]), CAST(:submit_attempts AS integer[]),
            CAST(:submit_jobs AS varchar[]), CAST(:submit_bytes AS integer[])) AS new (key, attempt, job_id, bytes)
    ), of_stopped AS (
        UPDATE task_attempts SET stop = true, pending = true, due_at = CAST(:due_at AS timestamptz)
        FROM held, unnest(CAST(:stop_keys AS text[]), CAST(:stop_attempts AS integer[])) AS new (key, attempt)
        WHERE task_attempts.run_id = held.id AND task_attempts.key = new.key
        AND task_attempts.attempt = new.attempt
    ), of_more AS (
        INSERT INTO run_signals (run_id, job_id, at)
        SELECT held.id, '', CAST(:moment AS timestamptz) FROM held WHERE CAST(:start_more AS boolean)
    ), of_feed AS (
        INSERT INTO feed_changes (kind, user_id, creator, document, occurred_at)
        SELECT CAST(:feed_kind AS text), CAST(:feed_user AS text), CAST(:feed_creator AS text),
            CAST(CAST(:feed_document AS text) AS json), CAST(:moment AS timestamptz)
        FROM held WHERE CAST(:feed_document AS text) IS NOT NULL
    )
    UPDATE runs SET state = CAST(:run_state AS text), reason = CAST(:run_reason AS text),
        blocked_by = CAST(:run_blocked_by AS text), started_at = CAST(:run_started_at AS timestamptz),
        finished_at = CAST(:run_finished_at AS timestamptz), tasks_version = CAST(:run_tasks_version AS text)
    FROM held WHERE runs.id = held.id RETURNING runs.id
    """)
)
_TASK_COLUMNS = (
    "key", "state", "attempt", "active", "retries_left", "reason", "output", "started_at", "finished_at", "fresh",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """The job of an attempt, whose TaskSet takes `size` bytes."""

    id: str
    size: int


def write(
    session: Session,
    run_id: str,
    *,
    known_version: str,
    columns: Mapping[str, Any],
    tasks: Sequence[Mapping[str, Any]],
    commands: Collection[RunCommand],
    submitted: Mapping[SubmitJob, SubmittedJob],
    signals: Sequence[int],
    feed: Mapping[str, Any] | None,
    moment: datetime,
) -> bool:
    """Write the `columns` of a run, its changed tasks by column, the attempts and the signal that follow from commands, and the
    feed's entry; delete the signals with these IDs.

    Returns False, and writes nothing, unless the run has the known version, all signals are there, and nobody else holds the
    run's lock.
    """
    started = [command for command in commands if isinstance(command, SubmitJob)]
    stopped = [command for command in commands if isinstance(command, StopJob)]
    jobs = [submitted.get(command) for command in started]
    parameters = {
        "run_id": run_id,
        "known_version": known_version,
        **{f"run_{name}": value for name, value in columns.items()},
        **{name: [row[name] for row in tasks] for name in _TASK_COLUMNS},
        "submit_keys": [command.task for command in started],
        "submit_attempts": [command.attempt for command in started],
        "submit_jobs": [job and job.id for job in jobs],
        "submit_bytes": [job.size if job else 0 for job in jobs],
        "stop_keys": [command.task for command in stopped],
        "stop_attempts": [command.attempt for command in stopped],
        "due_at": moment + timedelta(seconds=settings().wake_after_seconds),
        "start_more": StartMore() in commands,
        "signals": list(signals),
        "moment": moment,
        "feed_kind": feed and feed["kind"],
        "feed_user": feed and feed["user_id"],
        "feed_creator": feed and feed["creator"],
        "feed_document": feed and to_json(feed["document"]),
    }
    return _WRITE.execute(session.connection(), parameters).one_or_none() is not None
