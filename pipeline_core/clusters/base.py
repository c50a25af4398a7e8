"""The small interface that every cluster driver has, and the values that cross it.

Every method is idempotent: names are derived from job, role, index and attempt. Finding one's own object there already
is success; finding someone else's raises `ForeignObject`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import Any, Protocol

from pipeline_core.errors import NotFound, PipelineError
from pipeline_core.states import ReplicaState


class ClusterError(PipelineError):
    """The cluster refused the TaskSet for good; asking again would not help."""


class ClusterUnavailable(PipelineError):
    """The cluster cannot be reached at present; asking again later may help."""


class StillEnding(ClusterUnavailable):
    """What an earlier attempt left in the cluster is still ending; the next one has to wait for that."""


class NoSuchAttempt(NotFound):
    """No replica that is asked for was tried so often."""


class ForeignObject(ClusterError):
    """An object of the name that the job needs belongs to someone else."""


@dataclass(frozen=True, order=True, slots=True)
class ReplicaKey:
    """One try of one replica: `attempt` counts from 0 and grows with each retry of the replica."""

    role: str
    index: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A TaskSet as it is handed to a cluster. `attempt` counts retries of the whole TaskSet, from 0.

    `replicas` names the tries that ought to exist; None means the first try of every replica.
    """

    job_id: str
    namespace: str
    user_id: str
    taskset: Mapping[str, Any]
    attempt: int = 0
    replicas: tuple[ReplicaKey, ...] | None = None


def expected_replicas(request: LaunchRequest) -> tuple[ReplicaKey, ...]:
    """The tries that ought to exist, one by one."""
    if request.replicas is not None:
        return request.replicas
    return tuple(
        ReplicaKey(role["name"], index)
        for role in request.taskset["spec"]["roles"]
        for index in range(role.get("replicas", 1))
    )


@dataclass(frozen=True, slots=True)
class ReplicaUsage:
    """What a replica uses at present: CPU in cores, memory in bytes."""

    cpu_cores: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """What the cluster says of the latest try of one replica. Times are aware, in UTC.

    `usage` changes all the time, so it is not recorded, and makes no two reports differ.
    """

    role: str
    index: int
    state: ReplicaState
    attempt: int = 0
    reason: str = ""
    exit_code: int | None = None
    diagnostics: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""
    host_ip: str = ""
    pod_name: str = ""
    pod_uid: str = ""
    pod_ip: str = ""
    usage: ReplicaUsage | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Observation:
    """All replicas of one job at one moment. `platform` holds what only this kind of cluster knows.

    `cleared` says that nothing of the job is left there to clean up.
    """

    job_id: str
    attempt: int
    replicas: tuple[ReplicaReport, ...]
    platform: Mapping[str, Any] = field(default_factory=dict)
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines are wanted. `tail` is a number of lines, `since` an aware time; None leaves a field open.

    `attempt` counts the tries of each replica from 0; None means the last one. What is followed goes on as long as
    `finished`, asked when all tries have ended, says that more may come.
    """

    role: str | None = None
    index: int | None = None
    attempt: int | None = None
    tail: int | None = None
    since: datetime | None = None
    follow: bool = False
    finished: Callable[[], bool] = field(default=lambda: True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line, without its newline. `source` is what it is prefixed with when several replicas are merged."""

    time: datetime
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class ReplicaResult:
    """What the latest try of one replica has left behind, when it has ended.

    `output` and `metrics` are what its files have, None when there is nothing; one that is longer than may be kept comes
    with one byte more than that. The problems say why something that is there, or may be, is not. `unknown` says that the
    cluster cannot tell whether there is an output.
    """

    role: str
    index: int
    attempt: int = 0
    output: bytes | None = None
    metrics: bytes | None = None
    output_problem: str = ""
    metrics_problem: str = ""
    unknown: bool = False

    @property
    def empty(self) -> bool:
        return self.output is None and self.metrics is None and not (self.output_problem or self.metrics_problem)


class Cluster(Protocol):
    """Where TaskSets run."""

    name: str
    platform: str

    def launch(self, request: LaunchRequest) -> Observation:
        """Make sure that the unit's replicas exist, and say how they stand.

        A later attempt ends the earlier ones, and begins when nothing of them runs any more (StillEnding until then); an
        attempt that a later one has followed is left as it is. Raises ClusterError when it can never work, ClusterUnavailable
        when it may work later.
        """

    def observe(self, job_id: str, *, usage: bool = False) -> Observation | None:
        """One job's replicas now; None when the cluster knows nothing of the job. Raises ClusterUnavailable.

        With `usage`, those that run tell what they use, where the cluster knows it.
        """

    def watch(self, stop: Event) -> Iterator[Collection[str]]:
        """IDs of jobs in which something changed, as it happens, until `stop` is set: all that came up since the last.

        Begins with every job that the cluster has. When nothing happens there are none, as a sign of life. May repeat an
        ID and may miss a change: whoever listens also asks from time to time. Raises ClusterUnavailable.
        """

    def cached_observation(self, job_id: str) -> Observation | None:
        """What the watch of this process has told of a job, where that is enough to go on; None: observe it.

        Nothing is said of the replicas that it leaves out. Asks nobody.
        """

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine | None]:
        """Lines in the order of their times, also when what wrote them is gone.

        With `follow`, until what is asked for has ended, later tries included; None is a sign of life when there is no
        line. Raises NoSuchAttempt, ClusterUnavailable.
        """

    def results(self, job_id: str) -> Iterator[ReplicaResult]:
        """What the job's replicas that have ended left behind, one by one; those that left nothing are not among them.

        Of a container that counts: sidecars and init containers leave nothing. To be asked before everything of the job
        is deleted. Raises ClusterUnavailable.
        """

    def delete(self, job_id: str, replicas: Collection[ReplicaKey] | None = None) -> bool:
        """Stop these replicas (None: everything of the job), with their grace time, without waiting for it.

        True when nothing of it runs any more: call again until then. Logs stay. Raises ClusterUnavailable.
        """

    def end(self, job_id: str) -> bool:
        """Stop what runs of a job, as `delete` does, and keep what has ended where the cluster can.

        True when nothing of it runs any more: call again until then. Raises ClusterUnavailable.
        """

    def prune(self, job_ids: Collection[str]) -> None:
        """Remove what is left of deleted jobs, logs among it; jobs that are not deleted stay. Raises ClusterUnavailable."""

    def prune_logs(self, job_ids: Collection[str]) -> None:
        """Remove the logs alone of deleted jobs; jobs that are not deleted keep theirs. Raises ClusterUnavailable."""
