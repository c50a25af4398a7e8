"""The interface of every cluster driver, and the values that cross it.

Every method is idempotent: the names of objects follow from job, role, index and attempt. An own object that exists already
is success; one that belongs to someone else raises `ForeignObject`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import Any, Protocol

from pipeline_core.errors import NotFound, PipelineError
from pipeline_core.states import ReplicaState
from pipeline_core.taskset.document import replica_count


class ClusterError(PipelineError):
    """The cluster refused the TaskSet; repeating would not help."""


class ClusterUnavailable(PipelineError):
    """The cluster cannot be used at present; repeating later may help."""


class ClusterDenied(ClusterUnavailable):
    """The cluster refuses the service's credentials, or grants it too few rights, until somebody changes that."""


class StillEnding(ClusterUnavailable):
    """Objects of an earlier attempt are still ending in the cluster; the next attempt has to wait for that."""


class NoSuchAttempt(NotFound):
    """No replica of the query has an attempt of this number."""


class ForeignObject(ClusterError):
    """An object of the name that the job needs belongs to someone else."""


@dataclass(frozen=True, order=True, slots=True)
class ReplicaKey:
    """A replica attempt: `attempt` counts from 0 and grows with each retry of the replica."""

    role: str
    index: int
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What a driver is asked to start: one job attempt. `attempt` counts from 0 and grows with retries of the whole TaskSet.

    `replicas` are the replica attempts that have to exist; None means the first attempt of every replica.
    """

    job_id: str
    namespace: str
    user_id: str
    taskset: Mapping[str, Any]
    attempt: int = 0
    replicas: tuple[ReplicaKey, ...] | None = None


def expected_replicas(request: LaunchRequest) -> tuple[ReplicaKey, ...]:
    """The replica attempts that have to exist, one by one."""
    if request.replicas is not None:
        return request.replicas
    return tuple(
        ReplicaKey(role["name"], index)
        for role in request.taskset["spec"]["roles"]
        for index in range(replica_count(role))
    )


@dataclass(frozen=True, slots=True)
class ReplicaUsage:
    """The present usage of a replica: CPU in cores, memory in bytes."""

    cpu_cores: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """The state of the latest attempt of one replica. Times are aware, in UTC. `restarts` is how often containers that count were
    started again within it.

    `usage` changes all the time, so it is not stored, and reports are compared without it.
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
    restarts: int = 0
    usage: ReplicaUsage | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Observation:
    """All replicas of one job at one moment. `platform` has fields that only this kind of cluster knows.

    `cleared` says that the cluster has nothing left of the job that would have to be cleaned up.
    """

    job_id: str
    attempt: int
    replicas: tuple[ReplicaReport, ...]
    platform: Mapping[str, Any] = field(default_factory=dict)
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines to read. `tail` is a number of lines, `since` an aware time; None does not restrict.

    `attempt` counts the attempts of each replica from 0; None means the last one. With `follow`, `finished` is called when
    all attempts have ended; as long as it returns False, others may follow. Of an origin in `starts`, lines before that time may
    be left out.
    """

    role: str | None = None
    index: int | None = None
    attempt: int | None = None
    tail: int | None = None
    since: datetime | None = None
    follow: bool = False
    finished: Callable[[], bool] = field(default=lambda: True, compare=False, repr=False)
    starts: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line, without its newline. `source` is its prefix when several replicas are merged; `origin` is one run of a container,
    whose lines come in the same order each time.

    An `open` line goes on in the next one of the same source.
    """

    time: datetime
    source: str
    text: str
    open: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaResult:
    """The results of the latest attempt of one replica, when it has ended.

    `output` and `metrics` are the contents of its files, None when there are none; of a file that is longer than allowed, one
    byte more than that. `output_problem` and `metrics_problem` say why something could not be read. `unknown` says that the
    cluster cannot know whether there is an output.
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

    def check(self) -> None:
        """Raises ClusterUnavailable when the cluster cannot be reached, ClusterDenied when it refuses the service."""

    def launch(self, request: LaunchRequest) -> Observation:
        """Make sure that the requested replicas exist; returns their states.

        A later attempt ends earlier ones, and starts when nothing of them runs any more (StillEnding until then). A request
        for an attempt that is not the latest changes nothing. Raises ClusterError when it can never succeed,
        ClusterUnavailable when it may later.
        """

    def observe(self, job_id: str, *, usage: bool = False) -> Observation | None:
        """The replicas of one job now; None when the cluster does not know the job. Raises ClusterUnavailable.

        With `usage`, reports of running replicas have their usage, where the cluster knows it.
        """

    def watch(self, stop: Event) -> Iterator[Collection[str]]:
        """IDs of changed jobs, as they change, until `stop` is set: each time all since the last.

        Starts with all jobs that the cluster has. Yields an empty collection at intervals when nothing changes. May repeat
        an ID and may miss a change: the caller also has to observe at intervals. Raises ClusterUnavailable.
        """

    def watch_lag(self) -> float:
        """How many seconds ago the watch of this process saw the oldest change that it has not yielded yet; 0 without one."""

    def cached_observation(self, job_id: str) -> Observation | None:
        """What the watch of this process has seen of a job; None when that is not enough, and the job has to be observed.

        It may leave out replicas, of which it says nothing. Sends no request.
        """

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine | None]:
        """Lines in the order of their times, also of replicas that do not exist any more.

        With `follow`, until all that the query asks for has ended, later attempts included; yields None at intervals when
        there is no line. Raises NoSuchAttempt, ClusterUnavailable.
        """

    def results(self, job_id: str) -> Iterator[ReplicaResult]:
        """The results of the job's ended replicas, one by one, without those that have none.

        Only containers that count have results, not sidecars and init containers. To be called before the job is deleted.
        Raises ClusterUnavailable.
        """

    def delete(self, job_id: str, replicas: Collection[ReplicaKey] | None = None) -> bool:
        """Stop these replicas (None: everything of the job), with their grace time, without waiting for it.

        True when nothing of it runs any more: call again until then. Logs stay. Raises ClusterUnavailable.
        """

    def end(self, job_id: str) -> bool:
        """Stop what runs of a job, as `delete` does, but keep ended replicas where the cluster can.

        True when nothing of it runs any more: call again until then. Raises ClusterUnavailable.
        """

    def prune(self, job_ids: Collection[str]) -> None:
        """Remove what is left of deleted jobs, their logs too; jobs that are not deleted stay. Raises ClusterUnavailable."""

    def log_sizes(self, job_ids: Collection[str]) -> Mapping[str, int]:
        """How many bytes the logs of these jobs take where the cluster keeps them after their pods. Raises ClusterUnavailable."""

    def prune_logs(self, job_ids: Collection[str]) -> None:
        """Remove only the logs of deleted jobs; jobs that are not deleted keep theirs. Raises ClusterUnavailable."""
