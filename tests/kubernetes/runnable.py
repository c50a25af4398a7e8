"""Makes the conformance suite's TaskSets run on a node that can pull nothing."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from threading import Event
from typing import Any

from pipeline_core.clusters.base import LaunchRequest, LogLine, LogQuery, Observation, ReplicaKey, ReplicaResult
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
from tests.waiting import wait_for

IMAGE = {"image": "localhost/busybox:1", "imagePullPolicy": "Never"}


class Runnable:
    """The driver, with every image replaced by the one that the node has."""

    def __init__(self, driver: KubernetesCluster) -> None:
        self._driver = driver
        self._launched: set[str] = set()
        self.name = driver.name
        self.platform = driver.platform

    def launch(self, request: LaunchRequest) -> Observation:
        self._launched.add(request.job_id)
        taskset: Any = copy.deepcopy(request.taskset)
        for role in taskset["spec"]["roles"]:
            spec = role["template"]["spec"]
            for container in (*spec.get("initContainers", ()), *spec["containers"]):
                container.update(IMAGE)
        return self._driver.launch(
            LaunchRequest(
                request.job_id, request.namespace, request.user_id, taskset, request.attempt, request.replicas
            )
        )

    def observe(self, job_id: str, *, usage: bool = False) -> Observation | None:
        return self._driver.observe(job_id, usage=usage)

    def watch(self, stop: Event) -> Iterator[Collection[str]]:
        return self._driver.watch(stop)

    def cached_observation(self, job_id: str) -> Observation | None:
        return self._driver.cached_observation(job_id)

    def end(self, job_id: str) -> bool:
        return self._driver.end(job_id)

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine | None]:
        return self._driver.logs(job_id, query)

    def results(self, job_id: str) -> Iterator[ReplicaResult]:
        return self._driver.results(job_id)

    def delete(self, job_id: str, replicas: Collection[ReplicaKey] | None = None) -> bool:
        return self._driver.delete(job_id, replicas)

    def prune(self, job_ids: Collection[str]) -> None:
        self._driver.prune(job_ids)

    def log_sizes(self, job_ids: Collection[str]) -> Mapping[str, int]:
        return self._driver.log_sizes(job_ids)

    def prune_logs(self, job_ids: Collection[str]) -> None:
        self._driver.prune_logs(job_ids)

    def clean_up(self) -> None:
        """End and forget what the suite may have launched."""
        jobs = self._launched | {"job"}
        for job_id in jobs:
            wait_for(lambda job_id=job_id: self._driver.delete(job_id), f"{job_id} to be gone")
        self._driver.prune(jobs)
