"""States of jobs and of replicas, and the changes between them that are allowed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class JobState(StrEnum):
    """The state of a job that users see. `waiting` covers the stages and waiting for the cluster."""

    WAITING = "waiting"
    SUSPENDED = "suspended"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def final(self) -> bool:
        return not TRANSITIONS[self]


TRANSITIONS: Mapping[JobState, frozenset[JobState]] = MappingProxyType(
    {
        JobState.WAITING: frozenset({JobState.SUSPENDED, JobState.RUNNING, JobState.FAILED, JobState.STOPPED}),
        JobState.SUSPENDED: frozenset({JobState.WAITING, JobState.FAILED, JobState.STOPPED}),
        JobState.RUNNING: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED}),
        JobState.SUCCEEDED: frozenset(),
        JobState.FAILED: frozenset(),
        JobState.STOPPED: frozenset(),
    }
)
"""The states that may follow each state. A job that ran has been `running`, even if its start and end are observed at once."""

FINAL: frozenset[JobState] = frozenset(state for state in JobState if state.final)

ALIASES: Mapping[str, frozenset[JobState]] = MappingProxyType(
    {
        **{state.value: frozenset({state}) for state in JobState},
        "preparing": frozenset({JobState.WAITING}),
        "pending": frozenset({JobState.WAITING}),
        "completed": FINAL,
    }
)


def parse_states(name: str) -> frozenset[JobState]:
    """The states that `name` means in filters and in a LifeHook's `states`; case-insensitive.

    Raises KeyError when there is no such name.
    """
    return ALIASES[name.lower()]


class ReplicaState(StrEnum):
    """The state of a replica, or of a role. A `stopped` replica was ended by the verdict of its role or job, or by a stop; it
    counts neither as succeeded nor as failed."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def ended(self) -> bool:
        return self not in (ReplicaState.WAITING, ReplicaState.RUNNING)
