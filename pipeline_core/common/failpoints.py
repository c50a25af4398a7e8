"""Failpoints: deliberate failures at named points, for tests that nothing is lost there. Off unless configured.

`PIPELINE_FAILPOINT` lists failures as `point[@label...]:action[:times]`, separated by commas; it is read when the process
starts. A failure happens when the point is reached with all of its labels. The actions are `exit` (end the process like
`kill -9`), `kill` (its whole process group), `raise`, and `sleep=SECONDS`. Each happens `times` times (default: once) over
all processes and their restarts: each time creates a file in `PIPELINE_FAILPOINT_DIR`. Operators do not set these variables,
so they are not settings.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pipeline_core.errors import ConfigurationError

EXIT_CODE = 70


class Point(StrEnum):
    """Points where a failure can be configured. Each lies between two actions that must stay consistent if the process dies
    between them."""

    STAGE_CLAIMED = "stage.claimed"
    """The lease is taken, no plugin is called yet. Labels of the stage's points: the stage, the job's name."""
    STAGE_ANSWERED = "stage.answered"
    """The plugins or the cluster have answered, no row is written."""
    STAGE_FINISHING = "stage.finishing"
    """All rows are written, in a transaction that has not committed; or, where one statement does all, it is not executed."""
    STAGE_FINISHED = "stage.finished"
    """The cursor has moved, the rest of the chain is not on its way."""
    STAGE_CARRIED = "stage.carried"
    """The cursor has moved, and its worker holds the next stage, which is not begun. Labels: that stage, the job's name."""
    STAGE_SENT = "stage.sent"
    """The rest of the chain is on its way, this message is not acknowledged. Labels: the stage."""
    GATE_ANSWERED = "gate.answered"
    """One gate has answered, nothing is written, the next is not called. Labels: the gate's key, the job's name."""
    GATE_WRITTEN = "gate.written"
    """One gate's answer is written, the next gate is not called. Labels: the job's name."""
    CHAIN_PARKING = "chain.parking"
    """The job is suspended, its chain is not parked. Labels of this and the next: the job's name."""
    CHAIN_PARKED = "chain.parked"
    """The chain is parked, its message is not acknowledged."""
    CHAIN_TAKEN = "chain.taken"
    """A resumed job's chain is taken out of Redis, and not sent."""
    CLUSTER_OBSERVED = "cluster.observed"
    """The cluster has returned an observation of a job, which is not written."""
    CLUSTER_CLEARED = "cluster.cleared"
    """Nothing of an ended job is left in the cluster, which is not written."""
    HOOK_CLAIMED = "hook.claimed"
    """Leases of deliveries are taken, no request is sent. Labels of the hooks' points: the state in the event or alert."""
    HOOK_ANSWERED = "hook.answered"
    """Subscribers have answered, nothing is written."""
    HOOK_FINISHING = "hook.finishing"
    """Answers are written, in a transaction that has not committed."""
    HOOK_FINISHED = "hook.finished"
    """Answers are written; what was claimed in the same transaction is not sent."""
    RUN_ADVANCING = "run.advancing"
    """The progress of a run is written, in a transaction that has not committed. Labels of the runs' points: the flow's name."""
    RUN_ADVANCED = "run.advanced"
    """The progress of a run has committed; its pending task attempts are not submitted or stopped."""
    TASK_SUBMITTING = "task.submitting"
    """The job of a task is written, in a transaction that has not committed. Labels of the tasks' points: the task."""
    TASK_SUBMITTED = "task.submitted"
    """The job of a task has been submitted; other tasks are not yet."""
    TASK_STOPPED = "task.stopped"
    """The job of a task has been stopped; this is not written in its run."""
    WAKEUPS_NOTED = "wakeups.noted"
    """A transaction has committed, its wake-ups are not published. Labels: the stages of steps, the classes of other wake-ups."""
    WAKEUPS_GATHERED = "wakeups.gathered"
    """Wake-ups wait for the publisher, and whoever noted them may have gone on; none is sent. Labels: as above."""
    TICK_FOUND = "tick.found"
    """A tick has found what is due and published none of it. Labels: the tick's name."""
    SCHEDULE_MADE = "schedule.made"
    """Runs of schedules are written, in a transaction that has not committed."""
    BACKFILL_MADE = "backfill.made"
    """Runs of a backfill are written, in a transaction that has not committed."""


class FailpointReached(Exception):
    """Raised by the action `raise`."""


@dataclass(frozen=True, slots=True)
class _Planned:
    name: str
    point: Point
    labels: frozenset[str]
    action: str
    times: int


def configure(environment: Mapping[str, str]) -> None:
    """Let the failures happen that these variables list, and no others. Raises ConfigurationError."""
    global _plan, _directory
    _plan, _directory = _configured(environment)


def reach(point: Point, *labels: str) -> None:
    """Mark that this point is reached. Does nothing unless a failure is configured for it."""
    for planned in _plan:
        if planned.point is point and planned.labels.issubset(labels) and _take(planned, labels):
            _act(planned.action)


def parse(text: str) -> tuple[_Planned, ...]:
    """The failures in a value of PIPELINE_FAILPOINT. Raises ConfigurationError."""
    return tuple(_parse(entry.strip()) for entry in text.split(",") if entry.strip())


def _parse(entry: str) -> _Planned:
    where, _, rest = entry.partition(":")
    action, _, times = rest.partition(":")
    point, *labels = where.split("@")
    try:
        if action.startswith("sleep="):
            float(action.removeprefix("sleep="))
        elif action not in ("exit", "kill", "raise"):
            raise ValueError(f'there is no action "{action}"')
        return _Planned(where, Point(point), frozenset(labels), action, int(times or 1))
    except ValueError as error:
        raise ConfigurationError(
            f'PIPELINE_FAILPOINT: "{entry}" is not point[@label...]:action[:times]: {error}'
        ) from error


def _take(planned: _Planned, labels: tuple[str, ...]) -> bool:
    for time_ in range(1, planned.times + 1):
        try:
            with (_directory / f"{planned.name}#{time_}").open("x") as marker:
                marker.write(" ".join(labels))
        except FileExistsError:
            continue
        return True
    return False


def _act(action: str) -> None:
    if action == "exit":
        os._exit(EXIT_CODE)
    if action == "kill":
        os.killpg(0, signal.SIGKILL)
    if action == "raise":
        raise FailpointReached
    time.sleep(float(action.removeprefix("sleep=")))


def _configured(environment: Mapping[str, str]) -> tuple[tuple[_Planned, ...], Path]:
    plan = parse(environment.get("PIPELINE_FAILPOINT", ""))
    directory = environment.get("PIPELINE_FAILPOINT_DIR", "")
    if plan and not directory:
        raise ConfigurationError(
            "PIPELINE_FAILPOINT is set, but not PIPELINE_FAILPOINT_DIR, where each failure that happens creates a file"
        )
    return plan, Path(directory)


_plan: tuple[_Planned, ...]
_directory: Path
configure(os.environ)
