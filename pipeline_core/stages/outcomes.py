"""The step that a stage works on, and the possible outcomes of a stage, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from pipeline_core.clusters.base import Observation
from pipeline_core.features.snapshot import RegisteredPlugin, Snapshot
from pipeline_core.plugins.types import Resumer
from pipeline_core.stages.names import Stage


class TrailOutcome(StrEnum):
    """The outcome of a plugin call: answered, or what the plugin's failure policy made of a missing answer. `rejected`: the
    translator answered that the job is invalid.

    `resumed` and `ask_again` are not plugin calls: the job was resumed; the time came at which a gate asked to be called again.
    """

    ANSWERED = "answered"
    IGNORED = "ignored"
    SUSPENDED = "suspended"
    FAILED = "failed"
    REJECTED = "rejected"
    RESUMED = "resumed"
    ASK_AGAIN = "ask_again"


SHADOW_CALL = 0
"""The number of a shadow's call: those of plugins that take part in a job are numbered from 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrailEntry:
    """One plugin call, for the trail. `factors` are those that a generator gave; `patch` (RFC 6902) is what a translator,
    decorator or binder changed."""

    plugin_key: str
    outcome: TrailOutcome
    started_at: datetime
    call_number: int = 1
    attempts: int = 0
    duration_ms: int = 0
    decision: str = ""
    reason: str = ""
    factors: Sequence[Mapping[str, Any]] | None = None
    patch: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Unreachable:
    """Since when a plugin is unavailable for a job, how many attempts were made, and how often the job was postponed."""

    since: datetime
    attempts: int
    postponements: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimedStep:
    """A step whose lease a worker holds, with all that its stage needs to know about the job.

    `submitted` is the job as submitted, for the stage `translate`; `taskset` is the TaskSet, for all others. `trail` holds
    the earlier plugin calls of this stage, oldest first. `claim_count` counts the claims of this step, including this one,
    since a worker last came to an outcome of it, and `crash_count` the unexpected exceptions in a row.
    `unreachable` are the plugins that the step was postponed for, by key. `traceparent` is the context of the job's trace, or of
    the span that the stage is run in. `event_sequence` is the number of the job's newest event, and `observed` whether anything
    was observed of it in the cluster.
    """

    job_id: str
    epoch: int
    stage: Stage
    owner: str
    claim_count: int
    crash_count: int = 0
    kind: str
    user_id: str
    namespace: str
    attempt: int
    event_sequence: int = 0
    observed: bool = False
    run_id: str | None = None
    request_id: str
    traceparent: str = ""
    header: Mapping[str, Any]
    submitted: Mapping[str, Any] | None = None
    taskset: Mapping[str, Any] | None = None
    factors: Mapping[str, Sequence[Mapping[str, Any]]]
    plugins: Snapshot
    unreachable: Mapping[str, Unreachable] = field(default_factory=dict)
    trail: Sequence[TrailEntry] = ()

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.header["jobName"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Advance:
    """The stage is done. `taskset`, `factors` and `namespace` are new values; None keeps the present one."""

    trail: Sequence[TrailEntry] = ()
    taskset: Mapping[str, Any] | None = None
    factors: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    namespace: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspend:
    """The job is suspended in this stage by a gate, or by the failure policy of any plugin.

    After `seconds`, if any, the suspension ends by itself as `on_timeout` says: `stop`, `resume` or `ask`. `resumer` says who
    may end it before. That it is the failure policy which suspends lets nobody past a gate: the plugin is called again.
    """

    trail: Sequence[TrailEntry]
    plugin_key: str
    reason: str
    seconds: float | None = None
    on_timeout: str = ""
    resumer: Resumer = Resumer.WRITER


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """A gate stopped the job."""

    trail: Sequence[TrailEntry]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """The job fails."""

    trail: Sequence[TrailEntry]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Postpone:
    """A plugin or the cluster is unavailable: the step is released, and is due again after `seconds`."""

    reason: str
    seconds: float
    trail: Sequence[TrailEntry] = ()
    unreachable: Mapping[str, Unreachable] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """The stage ended with an unexpected exception: the step is due again after `seconds`, and the exception counts."""

    reason: str
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """The TaskSet is in the cluster; `observation` is its first."""

    observation: Observation


@dataclass(frozen=True, kw_only=True, slots=True)
class NoPlace:
    """There is no place in the worker for a call of this plugin now (`stages.shares`): the step is released, and waits."""

    plugin: RegisteredPlugin
    trail: Sequence[TrailEntry] = ()


Ending = Suspend | Stop | Fail | Postpone | Crash | NoPlace | Launched
"""The outcomes by which a job does not go on to another stage."""
Outcome = Advance | Ending
