"""Deliberate failures at named points, so that tests can show that nothing is lost there. Off unless asked for.

`PIPELINE_FAULT` names what is to happen, as `point[@label...]:action[:times]`, several separated by commas; it is read
when the process starts. A fault happens where the point is reached with all of its labels. The actions are `exit` (this
process ends, as `kill -9` would end it), `kill` (its whole process group does), `raise`, and `sleep=SECONDS`. Each happens
`times` times (once if not said) over all processes and their restarts: every time leaves a file in `PIPELINE_FAULT_DIR`,
made atomically. No operator sets these, so they are not among the settings.
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
    """Where a fault may be put: each lies between two things that have to agree whatever happens there."""

    STAGE_CLAIMED = "stage.claimed"
    """The lease is taken, nothing is asked yet. Labels of the stage's points: the stage, the job's name."""
    STAGE_ANSWERED = "stage.answered"
    """The plugins have answered, or the cluster has; nothing of it is written down."""
    STAGE_FINISHING = "stage.finishing"
    """All is written down, in a transaction that has not committed."""
    STAGE_FINISHED = "stage.finished"
    """The cursor has moved, the rest of the chain is not on its way."""
    STAGE_SENT = "stage.sent"
    """The rest of the chain is on its way, this message is not acknowledged. Labels: the stage."""
    GATE_ANSWERED = "gate.answered"
    """One gate has answered, the next is not asked, and nothing is written down. Labels: the gate's key, the job's name."""
    GATE_WRITTEN = "gate.written"
    """What one gate has said is written down, the next is not asked. Labels: the job's name."""
    CHAIN_PARKING = "chain.parking"
    """The job is suspended, its chain is not parked. Labels of this and the next: the job's name."""
    CHAIN_PARKED = "chain.parked"
    """The chain is parked, its message is not acknowledged."""
    CHAIN_TAKEN = "chain.taken"
    """A resumed job's chain is taken out of Redis, and not sent."""
    CLUSTER_OBSERVED = "cluster.observed"
    """The cluster has told of a job, nothing of it is written down."""
    CLUSTER_CLEARED = "cluster.cleared"
    """Nothing of an ended job is left in the cluster, the record does not know."""
    HOOK_CLAIMED = "hook.claimed"
    """The delivery's lease is taken, the subscriber is not told. Labels of the hooks' points: the state that it tells of."""
    HOOK_TOLD = "hook.told"
    """The subscriber has answered, nothing is written down."""
    HOOK_FINISHED = "hook.finished"
    """The answer is written down, the message is not acknowledged."""
    RUN_STEPPING = "run.stepping"
    """A step of a run is written down, in a transaction that has not committed. Labels of the runs' points: the flow's name."""
    RUN_STEPPED = "run.stepped"
    """The step has committed; what it owes is not carried out."""
    TASK_SUBMITTING = "task.submitting"
    """The job of a task is written down, in a transaction that has not committed. Labels of the tasks' points: the task."""
    TASK_SUBMITTED = "task.submitted"
    """The job of a task has been submitted; other tasks are not yet."""
    TASK_STOPPED = "task.stopped"
    """The job of a task has been stopped; its run does not know."""
    WAKEUPS_NOTED = "wakeups.noted"
    """A transaction has committed, what follows is not announced. Labels: the stages owed, and the kinds of other calls."""
    TICK_FOUND = "tick.found"
    """A sweep has put off the next look at what is due, and sent none of it. Labels: the tick's name."""
    SCHEDULE_MADE = "schedule.made"
    """Runs of schedules are written down, in a transaction that has not committed."""
    BACKFILL_MADE = "backfill.made"
    """Runs of a backfill are written down, in a transaction that has not committed."""


class Fault(Exception):
    """Raised on request."""


@dataclass(frozen=True, slots=True)
class _Planned:
    name: str
    point: Point
    labels: frozenset[str]
    action: str
    times: int


def reach(point: Point, *labels: str) -> None:
    """Say that this point is reached. Nothing happens unless a fault is planned for it."""
    for planned in _plan:
        if planned.point is point and planned.labels.issubset(labels) and _take(planned, labels):
            _act(planned.action)


def parse(text: str) -> tuple[_Planned, ...]:
    """The faults that the text asks for. Raises ConfigurationError."""
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
            f'PIPELINE_FAULT: "{entry}" is not point[@label...]:action[:times]: {error}'
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
        raise Fault
    time.sleep(float(action.removeprefix("sleep=")))


def _configured(environment: Mapping[str, str]) -> tuple[tuple[_Planned, ...], Path]:
    plan = parse(environment.get("PIPELINE_FAULT", ""))
    directory = environment.get("PIPELINE_FAULT_DIR", "")
    if plan and not directory:
        raise ConfigurationError("PIPELINE_FAULT is set, and PIPELINE_FAULT_DIR, where what happened is kept, is not")
    return plan, Path(directory)


_plan, _directory = _configured(os.environ)
