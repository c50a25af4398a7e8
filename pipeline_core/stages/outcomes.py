"""What a stage may come to, as values; and the claim that it works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pipeline_core.clusters.base import Observation
from pipeline_core.stages.order import Stage

if TYPE_CHECKING:
    from pipeline_core.features.snapshot import Snapshot


class TrailOutcome(StrEnum):
    """What came of an asking: an answer, or what its plugin's failure policy made of there being none.

    `resumed` and `ask_again` are not askings: someone resumed the job; a gate's wish to be asked once more came due.
    """

    ANSWERED = "answered"
    IGNORED = "ignored"
    SUSPENDED = "suspended"
    FAILED = "failed"
    RESUMED = "resumed"
    ASK_AGAIN = "ask_again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One asking, for the trail. `taskset` is what a decorator made of its TaskSet, kept as `patch`."""

    plugin_key: str
    outcome: TrailOutcome
    started_at: datetime
    asking: int = 1
    attempts: int = 0
    duration_ms: int = 0
    decision: str = ""
    reason: str = ""
    factors: Sequence[Mapping[str, Any]] | None = None
    patch: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """Since when a plugin was not to be had, and how many attempts and rounds that took."""

    since: datetime
    attempts: int
    rounds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A stage of a job that one worker holds the lease of, with all that the stage needs to know.

    `trail` is what was asked and answered in this stage before, oldest first. `claims` counts the tries of this step.
    """

    job_id: str
    epoch: int
    stage: Stage
    owner: str
    claims: int
    kind: str
    user_id: str
    namespace: str
    attempt: int
    request_id: str
    header: Mapping[str, Any]
    job: Mapping[str, Any] | None
    factors: Mapping[str, Sequence[Mapping[str, Any]]]
    plugins: Snapshot
    unreachable: Mapping[str, Patience] = field(default_factory=dict)
    trail: Sequence[Entry] = ()

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.header["jobName"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Advance:
    """The stage is done. `taskset`, `factors` and `namespace` are new values; None leaves what is."""

    trail: Sequence[Entry] = ()
    taskset: Mapping[str, Any] | None = None
    factors: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    namespace: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspend:
    """The job is parked at this stage by a gate, or by the failure policy of any plugin.

    `until` and `on_timeout` (`stop`, `resume` or `ask`) say what ends the suspension if nobody does.
    """

    trail: Sequence[Entry]
    plugin_key: str
    reason: str
    seconds: float | None = None
    on_timeout: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """A gate stopped the job."""

    trail: Sequence[Entry]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """The job cannot go on."""

    trail: Sequence[Entry]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Postpone:
    """Something is not to be had at present: the job waits, and no worker with it, and asks again after `seconds`."""

    reason: str
    seconds: float
    trail: Sequence[Entry] = ()
    unreachable: Mapping[str, Patience] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """The TaskSet is in the cluster, and stands there as observed."""

    observation: Observation


Outcome = Advance | Suspend | Stop | Fail | Postpone | Launched
