"""Which runs of a flow may start, which wait for another one, and which are overtaken by newer ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pipeline_core.flows.states import RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A run as it stands. `dismissed` is whether a person lets those that depend on it pass."""

    id: str
    execution_date: datetime
    state: RunState
    blocked_by: str = ""
    dismissed: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a run: `running` starts it, `stopped` stops it; the other states are only written down."""

    state: RunState
    blocked_by: str = ""


_OPEN = (RunState.WAITING, RunState.BLOCKED)


def scheduled(
    runs: Iterable[Candidate], *, max_active_runs: int, depends_on_past: bool, expired_limit: int
) -> dict[str, Verdict]:
    """What changes for the scheduled runs of a flow, by their IDs; all of them are given, in any order.

    Only the newest `expired_limit` stay (0: all). Of those the oldest start first, as long as fewer than `max_active_runs`
    run. With `depends_on_past` a run is blocked, and takes up no room, until the one before it that stays has succeeded or
    was dismissed.
    """
    ordered = sorted(runs, key=lambda run: run.execution_date)
    staying = ordered[-expired_limit:] if expired_limit else ordered
    verdicts = {run.id: verdict for run in ordered[: len(ordered) - len(staying)] if (verdict := _overtaken(run))}
    room = max_active_runs - sum(run.state is RunState.RUNNING for run in staying)
    previous: Candidate | None = None
    for run in staying:
        if run.state in _OPEN:
            verdict = Verdict(RunState.WAITING)
            if depends_on_past and previous and not (previous.dismissed or previous.state is RunState.SUCCEEDED):
                verdict = Verdict(RunState.BLOCKED, previous.id)
            elif room > 0:
                verdict = Verdict(RunState.RUNNING)
                room -= 1
            if verdict != Verdict(run.state, run.blocked_by):
                verdicts[run.id] = verdict
        previous = run
    return verdicts


def manual(runs: Iterable[Candidate], *, max_manual_runs: int) -> dict[str, Verdict]:
    """Which of the runs that were started by hand, given in the order in which they came, start now."""
    known = list(runs)
    room = max_manual_runs - sum(run.state is RunState.RUNNING for run in known)
    waiting = [run.id for run in known if run.state in _OPEN]
    return {id: Verdict(RunState.RUNNING) for id in waiting[: max(0, room)]}


def _overtaken(run: Candidate) -> Verdict | None:
    if run.state in _OPEN:
        return Verdict(RunState.EXPIRED)
    return Verdict(RunState.STOPPED) if run.state is RunState.RUNNING else None
