"""The driver of a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from threading import Event
from typing import Any

import structlog
from kubernetes.utils.quantity import parse_quantity

from pipeline_core.clusters.base import (
    ClusterUnavailable,
    ForeignObject,
    LaunchRequest,
    LogLine,
    LogQuery,
    Observation,
    ReplicaKey,
    ReplicaResult,
    ReplicaUsage,
    StillEnding,
)
from pipeline_core.clusters.kubernetes import (
    archiving,
    logs,
    lookup,
    objects,
    orphans,
    results,
    rights,
    tombstones,
    watch,
)
from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi, connect, refusals
from pipeline_core.clusters.kubernetes.archive import Archive
from pipeline_core.clusters.kubernetes.archiving import Archiving, EndingLogs, LogArchiver
from pipeline_core.clusters.kubernetes.attempt import KubernetesAttempt
from pipeline_core.clusters.kubernetes.objects import JOB
from pipeline_core.clusters.kubernetes.pod_rules import WaitLimits
from pipeline_core.clusters.kubernetes.pod_view import PodView
from pipeline_core.clusters.kubernetes.watch import ChangedJobs, ObservationCache
from pipeline_core.common.clock import now
from pipeline_core.settings import Settings

log = structlog.get_logger(__name__)


class KubernetesCluster:
    """Runs replicas as pods, in `namespaces`.

    All state is in the cluster and in the archive of logs, so any number of processes may use the same cluster.
    `grace_seconds` and `pull_secrets` are for pods that do not set their own; logs that cannot be stored are waited for
    `archive_wait` seconds. `collector_image` is needed for metrics only.
    """

    platform = "kubernetes"

    def __init__(
        self,
        name: str,
        api: KubernetesApi,
        archive: Archive,
        *,
        namespaces: Sequence[str],
        limits: WaitLimits,
        grace_seconds: float,
        pull_secrets: tuple[str, ...] = (),
        archive_wait: float = 60.0,
        collector_image: str = "",
    ) -> None:
        self.name = name
        self._api = api
        self._archive = archive
        self._namespaces = tuple(namespaces)
        self._limits = limits
        self._cache = ObservationCache(limits)
        self._changed = ChangedJobs()
        self._ending_logs = EndingLogs(api, archive)
        self._grace_seconds = grace_seconds
        self._pull_secrets = pull_secrets
        self._archive_wait = archive_wait
        self._collector_image = collector_image

    def check(self) -> None:
        rights.check(self._api, self._namespaces)

    def launch(self, request: LaunchRequest) -> Observation:
        """Can be repeated after an interruption anywhere: existing objects are found by name, deleted ones in the ledger."""
        with refusals(f"launching job {request.job_id}", permanent=True):
            control = objects.control_configmap(request)
            attempts = self._attempts(request.job_id, (request.namespace,))
            for attempt in attempts:
                _check_owner(attempt, request)
            if attempts and attempts[-1].number > request.attempt:
                return attempts[-1].observe()
            ended = [self._end(earlier, hurry=True) for earlier in attempts if earlier.number < request.attempt]
            if not all(ended) or not self._earlier_orphans_ended(request):
                raise StillEnding(f"attempt {request.attempt - 1} of job {request.job_id} is still ending")
            current = next((one for one in attempts if one.number == request.attempt), None)
            attempt = current or self._create(request, control)
            if attempt.stopped_at is None:
                self._ensure_service(request, attempt)
                maker = objects.PodMaker(
                    request,
                    attempt.control,
                    pull_secrets=self._pull_secrets,
                    grace_seconds=self._grace_seconds,
                    collector_image=self._collector_image,
                )
                missing = attempt.missing(request)
                waits_for = self._blocking(request, missing)
                attempt.order([key for key in missing if key not in waits_for], maker)
                if waits_for:
                    raise StillEnding(f"pod {min(waits_for.values())} of an earlier attempt is still ending")
                attempt.refresh()
                if attempt.stopped_at is not None:
                    # It was stopped meanwhile, and the process that did so may not have seen all pods.
                    self._end(attempt)
            return attempt.observe()

    def observe(self, job_id: str, *, usage: bool = False) -> Observation | None:
        """Also ends pods of which only sidecars still run, and pods that have exceeded a limit."""
        with refusals(f"looking at job {job_id}"):
            attempt = self._latest(job_id)
            if attempt is None:
                return self._observe_orphans(job_id)
            self._cache.note_control(attempt.control)
            found = attempt.observe(self._keep_logs)
            used = usage_of(self._api, attempt.namespace, job_id) if usage else {}
            return replace(found, replicas=tuple(replace(one, usage=used.get(one.pod_name)) for one in found.replicas))

    def watch(self, stop: Event) -> Iterator[Collection[str]]:
        """Also archives the logs of running containers and removes old control ConfigMaps, for as long as it lasts."""
        over = Event()
        LogArchiver(self._api, self._archive, self._namespaces, over).start()
        tombstones.start(self._api, self._namespaces, over)
        try:
            self._changed = ChangedJobs()
            yield from watch.changes(self._api, self._namespaces, self._cache, stop, self._changed)
        finally:
            over.set()

    def watch_lag(self) -> float:
        return self._changed.oldest_seconds()

    def cached_observation(self, job_id: str) -> Observation | None:
        return self._cache.observation(job_id)

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine | None]:
        """Logs on a node that cannot be reached are left out; with `follow`, they follow once it can be reached."""

        def attempts() -> list[KubernetesAttempt]:
            return self._attempts(job_id)

        with refusals(f"reading the log of job {job_id}"):
            if objects.is_job_id(job_id):
                yield from logs.read(self._api, self._archive, job_id, query, attempts, lambda: self.observe(job_id))

    def results(self, job_id: str) -> Iterator[ReplicaResult]:
        """Only of a TaskSet that asks for them: not in every image can the termination message be at `/output`."""
        with refusals(f"collecting what job {job_id} left behind"):
            for attempt in self._attempts(job_id)[-1:]:
                yield from results.read(self._api, attempt, self._limits, self._archive_wait)

    def delete(self, job_id: str, replicas: Collection[ReplicaKey] | None = None) -> bool:
        """The control ConfigMap stays for a while, so that a late launch sees that the job was stopped: see `tombstones`."""
        with refusals(f"deleting job {job_id}"):
            attempts = self._attempts(job_id)
            if not attempts:
                return self._end_orphans(job_id)
            if replicas is not None:
                return attempts[-1].stop(replicas)
            for attempt in attempts:
                attempt.mark_stopped()
            gone = [self._end(attempt) for attempt in attempts]
            if all(gone):
                self._delete_service(attempts[-1])
            return all(gone)

    def end(self, job_id: str) -> bool:
        """Also stores the logs of ended pods: their node may be gone when they are deleted."""
        with refusals(f"ending job {job_id}"):
            attempts = self._attempts(job_id)
            if not attempts:
                return self._end_orphans(job_id)
            for attempt in attempts:
                attempt.mark_stopped()
            ended = [self._end(attempt, keep=attempt is attempts[-1]) for attempt in attempts]
            return all(ended)

    def prune(self, job_ids: Collection[str]) -> None:
        for job_id in job_ids:
            with refusals(f"pruning job {job_id}"):
                attempts = self._attempts(job_id)
                if objects.is_job_id(job_id) and all(attempt.cleared for attempt in attempts):
                    for attempt in attempts:
                        attempt.forget()
                    self._archive.remove(job_id)

    def log_sizes(self, job_ids: Collection[str]) -> Mapping[str, int]:
        return {job_id: self._archive.size(job_id) if objects.is_job_id(job_id) else 0 for job_id in job_ids}

    def prune_logs(self, job_ids: Collection[str]) -> None:
        for job_id in job_ids:
            with refusals(f"pruning the logs of job {job_id}"):
                if objects.is_job_id(job_id) and all(attempt.cleared for attempt in self._attempts(job_id)):
                    self._archive.remove(job_id)

    def _attempts(self, job_id: str, namespaces: Sequence[str] = ()) -> list[KubernetesAttempt]:
        """The attempts of a job that the cluster has, by number."""
        if not objects.is_job_id(job_id):
            return []
        found = lookup.controls(self._api, job_id, namespaces or self._namespaces)
        return [KubernetesAttempt(self._api, control, self._limits) for control in found]

    def _latest(self, job_id: str) -> KubernetesAttempt | None:
        if not objects.is_job_id(job_id):
            return None
        found = lookup.latest_control(self._api, job_id, self._namespaces)
        return KubernetesAttempt(self._api, found, self._limits) if found else None

    def _observe_orphans(self, job_id: str) -> Observation | None:
        """The pods of a job without a control ConfigMap, as long as there are any. Also ends them, as the cluster would."""
        pods = orphans.find(self._api, job_id, self._namespaces) if objects.is_job_id(job_id) else []
        for pod in pods:
            self._keep_logs(pod)
        observation = orphans.observe(pods, job_id, self._limits)
        orphans.end(self._api, pods)
        return observation

    def _end_orphans(self, job_id: str) -> bool:
        pods = orphans.find(self._api, job_id, self._namespaces) if objects.is_job_id(job_id) else []
        for pod in pods:
            self._keep_logs(pod)
        return orphans.end(self._api, pods)

    def _earlier_orphans_ended(self, request: LaunchRequest) -> bool:
        """Whether no pod of an earlier job attempt runs whose control ConfigMap is gone; ends those that do."""
        if request.attempt == 0:
            return True
        pods = orphans.find(self._api, request.job_id, (request.namespace,))
        earlier = [pod for pod in pods if orphans.attempt_of(pod) < request.attempt and orphans.runs(pod)]
        for pod in earlier:
            self._keep_logs(pod)
        return orphans.end(self._api, earlier)

    def _blocking(self, request: LaunchRequest, missing: Collection[ReplicaKey]) -> dict[ReplicaKey, str]:
        """Retries of replicas that have to wait for an earlier attempt that still runs, each with the name of its pod."""
        if all(key.attempt == 0 for key in missing):
            return {}
        pods = orphans.find(self._api, request.job_id, (request.namespace,))
        return orphans.blocking(pods, request.attempt, missing)

    def _create(self, request: LaunchRequest, control: objects.Json) -> KubernetesAttempt:
        path = f"/api/v1/namespaces/{request.namespace}/configmaps"
        if request.attempt > 0:
            lookup.note_later_attempt(self._api, request)
        try:
            made = self._api.request("POST", path, body=control)
        except ApiError as error:
            if error.status != 409:
                raise
            name = control["metadata"]["name"]
            made = self._api.request("GET", f"{path}/{name}")
            if (made["metadata"].get("labels") or {}).get(objects.JOB) != request.job_id:
                raise ForeignObject(
                    f"the cluster has a ConfigMap {request.namespace}/{name} that does not belong to job {request.job_id}"
                ) from error
        attempt = KubernetesAttempt(self._api, made, self._limits)
        _check_owner(attempt, request)
        return attempt

    def _ensure_service(self, request: LaunchRequest, attempt: KubernetesAttempt) -> None:
        path = f"/api/v1/namespaces/{request.namespace}/services"
        try:
            self._api.request("POST", path, body=objects.service(request, attempt.control))
        except ApiError as error:
            if error.status != 409:
                raise
            found = self._api.request("GET", f"{path}/{request.job_id}")
            if (found["metadata"].get("labels") or {}).get(objects.JOB) != request.job_id:
                raise ForeignObject(
                    f"the cluster has a Service {request.namespace}/{request.job_id} that does not belong to the job"
                ) from error

    def _delete_service(self, attempt: KubernetesAttempt) -> None:
        path = f"/api/v1/namespaces/{attempt.namespace}/services/{attempt.job_id}"
        try:
            found = self._api.request("GET", path)
            if (found["metadata"].get("labels") or {}).get(objects.JOB) == attempt.job_id:
                self._api.request("DELETE", path, body={"preconditions": {"uid": found["metadata"]["uid"]}})
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _end(self, attempt: KubernetesAttempt, *, hurry: bool = False, keep: bool = False) -> bool:
        """Take the next step to end a job attempt. Returns whether nothing of it runs and no pod is left.

        With `keep`, pods stay that have ended and whose logs are stored. With `hurry`, pods may be left whose logs have been
        waited for long enough: they are deleted when the job is cleaned up.
        """
        if attempt.cleared:
            return True
        attempt.mark_stopped()
        pods = attempt.pods()
        ended = attempt.end_all(pods)
        progress = {key: self._archive_logs(attempt, pod) for key, pod in ended.items()}
        done = {key: pod for key, pod in ended.items() if progress[key] is Archiving.DONE}
        if not keep:
            attempt.remove(done)
        if len(done) == len(pods):
            if not keep:
                attempt.clear()
            return True
        late = [key for key in ended if progress[key] is Archiving.LATE]
        return hurry and len(done) + len(late) == len(pods)

    def _keep_logs(self, pod: objects.Json) -> None:
        """Store logs that are about to be lost: the cluster keeps only the last run of a restarted container, and none of a
        pod that somebody deletes. What cannot be stored now is stored by the next observation, if it still exists.
        """
        if self._ending_logs.is_following(pod):
            return
        try:
            archiving.store(self._api, self._archive, pod)
            archiving.store_running(self._api, self._archive, pod)
            self._ending_logs.follow(pod)
        except ClusterUnavailable as error:
            log.warning("log not stored", pod=pod["metadata"]["name"], error=error.message)

    def _archive_logs(self, attempt: KubernetesAttempt, pod: objects.Json) -> Archiving:
        """Store the logs of an ended pod, if that is possible now."""
        view = PodView(pod, now())
        if not view.settled:
            return Archiving.UNDER_WAY
        try:
            archiving.store(self._api, self._archive, pod)
        except ClusterUnavailable as error:
            waited = archiving.waited(now(), view.finished, attempt.stopped_at)
            return archiving.archiving_after(error, waited, self._archive_wait)
        return Archiving.DONE


def from_settings(settings: Settings) -> KubernetesCluster:
    """The cluster of PIPELINE_KUBECONFIG, else the one that this process runs in. Raises ConfigurationError."""
    return KubernetesCluster(
        settings.cluster_name,
        connect(settings.kubeconfig, settings.kube_context),
        Archive(
            settings.archive_url or str((settings.data_dir / "archive").absolute()), limit=settings.log_limit_bytes
        ),
        namespaces=settings.namespaces,
        limits=WaitLimits(timedelta(seconds=settings.pending_timeout), timedelta(seconds=settings.scheduling_timeout)),
        grace_seconds=settings.stop_grace_seconds,
        pull_secrets=settings.image_pull_secrets,
        archive_wait=settings.archive_wait,
        collector_image=settings.collector_image,
    )


def _check_owner(attempt: KubernetesAttempt, request: LaunchRequest) -> None:
    if attempt.user != request.user_id:
        raise ForeignObject(f"the cluster has a job {request.job_id} of another user")


def usage_of(api: KubernetesApi, namespace: str, job_id: str) -> dict[str, ReplicaUsage]:
    """The usage of a job's pods by their names, from the resource metrics API; nothing where that is not installed.

    https://kubernetes.io/docs/tasks/debug/debug-cluster/resource-metrics-pipeline/
    """
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
    try:
        return {item["metadata"]["name"]: _sum(item["containers"]) for item in api.items(path, f"{JOB}={job_id}")}
    except (ApiError, ClusterUnavailable):
        return {}


def _sum(containers: list[Mapping[str, Any]]) -> ReplicaUsage:
    used = [container["usage"] for container in containers]
    return ReplicaUsage(
        cpu_cores=float(sum(parse_quantity(one["cpu"]) for one in used)),
        memory_bytes=int(sum(parse_quantity(one["memory"]) for one in used)),
    )
