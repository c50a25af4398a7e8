"""A cluster that accepts everything and reports success at once: for benchmarks, and for trying the stages alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from threading import Event

from pipeline_core.clusters.base import LogLine, LogQuery, Observation, ReplicaKey, ReplicaReport, Result, Unit, tries
from pipeline_core.common.clock import now
from pipeline_core.states import ReplicaState

SIGN_OF_LIFE_SECONDS = 5.0


class NullCluster:
    """Remembers nothing: what `launch` says is all that is ever known of a job."""

    platform = "null"

    def __init__(self, name: str) -> None:
        self.name = name

    def launch(self, unit: Unit) -> Observation:
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
            for key in tries(unit)
        )
        return Observation(unit.job_id, unit.attempt, replicas, {"platform": self.platform}, cleared=True)

    def observe(self, job_id: str, *, usage: bool = False) -> Observation | None:
        return None

    def watch(self, stop: Event) -> Iterator[Collection[str]]:
        while not stop.is_set():
            yield ()
            stop.wait(SIGN_OF_LIFE_SECONDS)

    def told(self, job_id: str) -> Observation | None:
        return None

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine | None]:
        return iter(())

    def results(self, job_id: str) -> Iterator[Result]:
        return iter(())

    def delete(self, job_id: str, replicas: Collection[ReplicaKey] | None = None) -> bool:
        return True

    def end(self, job_id: str) -> bool:
        return True

    def prune(self, job_ids: Collection[str]) -> None:
        pass

    def prune_logs(self, job_ids: Collection[str]) -> None:
        pass
