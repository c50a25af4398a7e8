"""States of runs and of their tasks, and what may trigger a run."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """The state of a run."""

    WAITING = "waiting"
    BLOCKED = "blocked"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED, RunState.EXPIRED)


class TaskState(StrEnum):
    """The state of a task of a run; `waiting` covers tasks without a job and with one that waits."""

    WAITING = "waiting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    SKIPPED = "skipped"
    UPSTREAM_FAILED = "upstream_failed"

    @property
    def done(self) -> bool:
        """Whether downstream tasks may start."""
        return self in (TaskState.SUCCEEDED, TaskState.SKIPPED)

    @property
    def lost(self) -> bool:
        """Whether downstream tasks cannot run any more."""
        return self in (TaskState.FAILED, TaskState.STOPPED, TaskState.UPSTREAM_FAILED)


class Trigger(StrEnum):
    """What started a run. `task` and `debug` runs are of a single task."""

    MANUAL = "manual"
    SCHEDULE = "schedule"
    BACKFILL = "backfill"
    TASK = "task"
    DEBUG = "debug"

    @property
    def by_hand(self) -> bool:
        """Whether a person started this run, rather than a schedule or a backfill."""
        return self in BY_HAND


BY_HAND = (Trigger.MANUAL, Trigger.TASK, Trigger.DEBUG)
