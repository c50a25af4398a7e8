"""A cluster that accepts every TaskSet and reports success at once: for benchmarks, and for trying the stages alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from threading import Event

from pipeline_core.clusters.base import (
    LaunchRequest,
    LogLine,
    LogQuery,
    Observation,
    ReplicaKey,
    ReplicaReport,
    ReplicaResult,
    expected_replicas,
)
from pipeline_core.common.clock import now
from pipeline_core.settings import Settings
from pipeline_core.states import ReplicaState

IDLE_SECONDS = 5.0


class NullCluster:
    """Stores nothing: the observation that `launch` returns is the only one."""

    platform = "null"

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self) -> None:
        pass

    def launch(self, request: LaunchRequest) -> Observation:
        moment = now()
        replicas = tuple(
            ReplicaReport(
                key.role,
                key.index,
                ReplicaState.SUCCEEDED,
                attempt=key.attempt,
                exit_code=0,
                started_at=moment,
                finished_at=moment,
            )
            for key in expected_replicas(request)
        )
        return Observation(request.job_id, request.attempt, replicas, {"platform": self.platform}, cleared=True)

    def observe(self, job_id: str, *, usage: bool = False) -> Observation | None:
        return None

    def watch(self, stop: Event) -> Iterator[Collection[str]]:
        while not stop.is_set():
            yield ()
            stop.wait(IDLE_SECONDS)

    def watch_lag(self) -> float:
        return 0.0

    def cached_observation(self, job_id: str) -> Observation | None:
        return None

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine | None]:
        return iter(())

    def results(self, job_id: str) -> Iterator[ReplicaResult]:
        return iter(())

    def delete(self, job_id: str, replicas: Collection[ReplicaKey] | None = None) -> bool:
        return True

    def end(self, job_id: str) -> bool:
        return True

    def prune(self, job_ids: Collection[str]) -> None:
        pass

    def log_sizes(self, job_ids: Collection[str]) -> Mapping[str, int]:
        return dict.fromkeys(job_ids, 0)

    def prune_logs(self, job_ids: Collection[str]) -> None:
        pass


def from_settings(settings: Settings) -> NullCluster:
    return NullCluster(settings.cluster_name)
