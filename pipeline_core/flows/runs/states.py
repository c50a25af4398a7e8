"""States of runs and of their tasks, and the other names that alerts know them by."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from pipeline_core.flows.notation.errors import Fault
from pipeline_core.validation.body import shown


class RunState(StrEnum):
    """What a person sees of a run."""

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
    """What a person sees of a task of a run; `waiting` covers tasks without a job and with one that waits."""

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
        """Whether what follows may start."""
        return self in (TaskState.SUCCEEDED, TaskState.SKIPPED)

    @property
    def lost(self) -> bool:
        """Whether what follows is given up."""
        return self in (TaskState.FAILED, TaskState.STOPPED, TaskState.UPSTREAM_FAILED)


ALERTS: Mapping[str, RunState] = MappingProxyType(
    {
        **{state.value: state for state in RunState},
        "created": RunState.WAITING,
        "pending": RunState.WAITING,
        "terminated": RunState.STOPPED,
        "error": RunState.FAILED,
    }
)
"""Each name, in lower case, that `alert_status` may hold."""


def read_alerts(text: str) -> frozenset[RunState]:
    """The states in a text of names, in any case, separated by commas. Raises Fault."""
    names = [word.strip() for word in text.split(",") if word.strip()]
    for name in names:
        if name.lower() not in ALERTS:
            raise Fault(f"names {shown(name)}; there are {', '.join(ALERTS)}, separated by commas")
    return frozenset(ALERTS[name.lower()] for name in names)
