"""One job attempt in the cluster: its control ConfigMap, and the pods that it owns."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from pipeline_core.clusters.base import (
    ForeignObject,
    LaunchRequest,
    Observation,
    ReplicaKey,
    ReplicaReport,
    StillEnding,
    expected_replicas,
)
from pipeline_core.clusters.kubernetes import objects
from pipeline_core.clusters.kubernetes.api import MERGE, ApiError, KubernetesApi
from pipeline_core.clusters.kubernetes.ledger import LEDGER_KEY, AttemptLedger, pack, unpack
from pipeline_core.clusters.kubernetes.pod_rules import (
    DEADLINE_REASON,
    SIDECARS_REASON,
    STOPPED_REASON,
    Judgement,
    WaitLimits,
    count_results,
    judge,
)
from pipeline_core.clusters.kubernetes.pod_view import EndingStep, PodView, moment, next_step
from pipeline_core.clusters.kubernetes.podlogs import end_of_log, message_is_poor
from pipeline_core.common.clock import now
from pipeline_core.states import ReplicaState
from pipeline_core.taskset.document import active_deadline, collects, replica_count

Json = dict[str, Any]

MAX_CONCURRENT = 8
"""Requests about single pods that are sent at the same time."""
MOST_DIAGNOSED = 5
"""Failed replicas whose logs are read for diagnostics; the job shows those of the first."""


class KubernetesAttempt:
    """Wraps the control ConfigMap as it was last read or written; `ledger` is the ledger in it."""

    def __init__(self, api: KubernetesApi, control: Json, limits: WaitLimits) -> None:
        self._api = api
        self._limits = limits
        self._take(control)
        metadata = control["metadata"]
        self.namespace: str = metadata["namespace"]
        self.job_id: str = metadata["labels"][objects.JOB]
        self.number = int(metadata["labels"][objects.ATTEMPT])

    def _take(self, control: Json) -> None:
        self.control = control
        self.ledger = unpack(control)

    @property
    def stopped_at(self) -> datetime | None:
        stamp = self._annotations.get(objects.STOPPED_AT)
        return moment(stamp) if stamp else None

    @property
    def cleared(self) -> bool:
        return objects.CLEARED in self._annotations

    @property
    def collects(self) -> bool:
        """Whether the results of its pods are to be collected."""
        return self._taskset is not None and collects(self._taskset)

    @property
    def user(self) -> str:
        return str(self._annotations.get(objects.USER, ""))

    @property
    def _annotations(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.control["metadata"].get("annotations") or {}
        return found

    @cached_property
    def _taskset(self) -> Mapping[str, Any] | None:
        text = (self.control.get("data") or {}).get(objects.TASKSET_KEY)
        return json.loads(text) if text else None

    # Reading

    def pods(self) -> dict[ReplicaKey, Json]:
        """Its pods by replica attempt, without the environment of their containers."""
        selector = f"{objects.JOB}={self.job_id},{objects.ATTEMPT}={self.number}"
        found = self._api.items(self._path("pods"), selector)
        return {key: _slim(pod) for pod in found if self._owns(pod) and (key := _key(pod))}

    def observe(self, before_loss: Callable[[Json], None] = lambda pod: None) -> Observation:
        """The states of all replicas. Also ends the pods that have to be ended according to them.

        `before_loss` is called with each pod whose logs are about to be lost: a container was restarted or will be, or the
        pod is being deleted.
        """
        pods = {} if self.cleared else self.pods()
        at = now()
        judgements = {key: judge(pod, at, self._limits) for key, pod in pods.items()}
        for pod in pods.values():
            view = PodView(pod, at)
            if view.restarts or view.deletion_asked:
                before_loss(pod)
        reports = self._reports(judgements)
        overdue = self._past_deadline(reports, at)
        lost = [key for key in reports if key in overdue and key not in pods]
        self._apply_verdicts(pods, judgements, overdue, [_final(reports[key], DEADLINE_REASON, at) for key in lost])
        latest: dict[tuple[str, int], ReplicaReport] = {}
        for key, report in sorted(self._reports(judgements).items()):
            latest[key.role, key.index] = report
        uid = str(self.control["metadata"]["uid"])
        results = count_results(judgements.values())
        platform = objects.platform_of(self.job_id, self.number, self.namespace, uid, results)
        ordered = sorted(self._diagnosed(latest.values(), pods), key=self._place)
        return Observation(self.job_id, self.number, tuple(ordered), platform, cleared=self.cleared)

    def _place(self, report: ReplicaReport) -> tuple[int, str, int]:
        names = [role["name"] for role in self._taskset["spec"]["roles"]] if self._taskset else []
        return (names.index(report.role) if report.role in names else len(names), report.role, report.index)

    def _reports(self, judgements: Mapping[ReplicaKey, Judgement]) -> dict[ReplicaKey, ReplicaReport]:
        """The reports of all replica attempts that exist, did, or should."""
        missing = self.ledger.launched - judgements.keys() - self.ledger.ended.keys()
        if missing and not self.cleared:
            # They may have ended, and been recorded as such, after the ConfigMap was read and before the pods were.
            self.refresh()
        first = _first_attempts(self._taskset) if self._taskset else []
        keys = {*first, *missing, *judgements, *self.ledger.ended, *self.ledger.stopped}
        return {key: self._report(key, judgements.get(key), key in missing) for key in keys}

    def _report(self, key: ReplicaKey, judgement: Judgement | None, missing: bool) -> ReplicaReport:
        if key in self.ledger.ended:
            return self.ledger.ended[key]
        if judgement is not None:
            return judgement.report
        name = objects.pod_name(self.job_id, self.number, key)
        report = ReplicaReport(key.role, key.index, ReplicaState.WAITING, key.attempt, pod_name=name)
        if self.stopped_at is not None or key in self.ledger.stopped:
            return replace(
                report, state=ReplicaState.STOPPED, reason=STOPPED_REASON, finished_at=self.stopped_at or now()
            )
        if missing:
            return replace(report, state=ReplicaState.FAILED, reason="PodDeleted", finished_at=now())
        return report

    def _past_deadline(self, reports: Mapping[ReplicaKey, ReplicaReport], at: datetime) -> set[ReplicaKey]:
        """Replica attempts that have not ended though the TaskSet's deadline has passed."""
        seconds = active_deadline(self._taskset) if self._taskset else None
        first = min((report.started_at for report in reports.values() if report.started_at), default=None)
        if seconds is None or first is None or at < first + timedelta(seconds=seconds):
            return set()
        return {key for key, report in reports.items() if not report.state.ended}

    def _apply_verdicts(
        self,
        pods: Mapping[ReplicaKey, Json],
        judgements: Mapping[ReplicaKey, Judgement],
        overdue: Collection[ReplicaKey],
        lost: list[ReplicaReport],
    ) -> None:
        """Record verdicts that do not show in the pods' status, and end the pods that still run."""
        given_up = {key: one for key, one in judgements.items() if one.end and one.report.state.ended}
        if given_up or lost:
            self.amend(lambda ledger: ledger.with_ended([*(one.report for one in given_up.values()), *lost]))
        sidecars = [key for key, one in judgements.items() if one.end and not one.report.state.ended]
        reasons = {
            **dict.fromkeys(sidecars, SIDECARS_REASON),
            **dict.fromkeys((key for key in overdue if key in pods), DEADLINE_REASON),
            **{key: one.report.reason for key, one in given_up.items()},
        }
        self._end({key: reason for key, reason in reasons.items() if key in pods}, pods)

    def _diagnosed(self, reports: Iterable[ReplicaReport], pods: Mapping[ReplicaKey, Json]) -> Iterator[ReplicaReport]:
        """The reports; the first failed ones get the end of their logs where there is no termination message, where it was cut,
        or where it may be output that the container wrote before it failed.
        """
        diagnosed = 0
        for report in reports:
            pod = pods.get(ReplicaKey(report.role, report.index, report.attempt))
            needs_log = pod is not None and (self.collects or message_is_poor(report, pod))
            if report.state is ReplicaState.FAILED and pod and needs_log and diagnosed < MOST_DIAGNOSED:
                diagnosed += 1
                yield replace(report, diagnostics=end_of_log(self._api, pod) or report.diagnostics)
            else:
                yield report

    # Changing

    def missing(self, request: LaunchRequest) -> list[ReplicaKey]:
        """The requested replica attempts that have not been created yet."""
        forbidden = self.ledger.launched | self.ledger.stopped | self.ledger.ended.keys()
        return [key for key in expected_replicas(request) if key not in forbidden]

    def order(self, missing: Collection[ReplicaKey], maker: objects.PodMaker) -> None:
        """Make sure that these replica attempts have been created, each once.

        Raises ApiError, ForeignObject, StillEnding.
        """
        with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
            for _ in pool.map(lambda key: self._create(maker.pod(key)), missing):
                pass
        if missing:
            self.amend(lambda ledger: ledger.with_launched(missing))

    def _create(self, pod: Json) -> None:
        try:
            self._api.request("POST", self._path("pods"), body=pod)
        except ApiError as error:
            if error.status != 409:
                raise
            self._check_ours(pod)

    def _check_ours(self, pod: Json) -> None:
        """Raises ForeignObject when the name belongs to another owner's pod, StillEnding when that pod is being deleted."""
        name = pod["metadata"]["name"]
        try:
            found = self._api.request("GET", f"{self._path('pods')}/{name}")
        except ApiError as error:
            if error.status == 404:
                raise StillEnding(f"pod {name} has just gone") from error
            raise
        if self._owns(found):
            return
        if (found["metadata"].get("labels") or {}).get(objects.JOB) == self.job_id:
            raise StillEnding(f"pod {name} of an earlier launch of the job is still there")
        raise ForeignObject(f"the cluster has a pod {self.namespace}/{name} that does not belong to this job")

    def stop(self, keys: Collection[ReplicaKey]) -> bool:
        """End these replica attempts; whether they have ended."""
        self.amend(lambda ledger: ledger.with_stopped(keys))
        pods = {key: pod for key, pod in self.pods().items() if key in set(keys)}
        running = self._running(pods)
        self._end(dict.fromkeys(running, STOPPED_REASON), pods)
        return not running

    def mark_stopped(self) -> None:
        """Record that nothing of it may run from now on, so that a late launch creates no pods."""
        if self.stopped_at is None:
            metadata = {
                "labels": {objects.STOPPED: "true"},
                "annotations": {objects.STOPPED_AT: now().isoformat()},
            }
            self._take(self._api.request("PATCH", self._own_path, body={"metadata": metadata}, content=MERGE))

    def end_all(self, pods: Mapping[ReplicaKey, Json]) -> dict[ReplicaKey, Json]:
        """End the pods that still run; the others, which have ended already."""
        running = self._running(pods)
        self._end(dict.fromkeys(running, STOPPED_REASON), pods)
        return {key: pod for key, pod in pods.items() if key not in running}

    def remove(self, pods: Mapping[ReplicaKey, Json]) -> None:
        """Record how these pods ended, and delete them."""
        at = now()
        self.amend(lambda ledger: ledger.with_ended(judge(pod, at, self._limits).report for pod in pods.values()))
        with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
            for _ in pool.map(self._delete, pods.values()):
                pass

    def clear(self) -> None:
        """Reduce it to the ledger: record replicas that never started, and drop the TaskSet."""
        if not self.cleared:
            rest = self._reports({}).values()
            self.amend(lambda ledger: ledger.with_ended(rest))
            self._update(
                lambda control: {
                    **{name: value for name, value in control.items() if name != "data"},
                    "metadata": _annotated(control["metadata"], objects.CLEARED, now().isoformat()),
                }
            )

    def forget(self) -> None:
        """Delete the control ConfigMap, and with it all objects that it owns."""
        _ignore_missing(lambda: self._api.request("DELETE", self._own_path))

    def amend(self, change: Callable[[AttemptLedger], AttemptLedger]) -> None:
        """Change the ledger; repeated when another process changed it meanwhile."""
        if change(self.ledger) != self.ledger:
            self._update(
                lambda control: {
                    **control,
                    "binaryData": {**(control.get("binaryData") or {}), LEDGER_KEY: pack(change(unpack(control)))},
                }
            )

    def refresh(self) -> None:
        self._take(self._api.request("GET", self._own_path))

    def _update(self, change: Callable[[Json], Json]) -> None:
        while True:
            try:
                self._take(self._api.request("PUT", self._own_path, body=change(self.control)))
                return
            except ApiError as error:
                if error.status != 409:
                    raise
            self.refresh()

    def _running(self, pods: Mapping[ReplicaKey, Json]) -> list[ReplicaKey]:
        at = now()
        views = {key: PodView(pod, at) for key, pod in pods.items()}
        return [key for key, view in views.items() if not view.ended or view.sidecars_run]

    def _end(self, reasons: Mapping[ReplicaKey, str], pods: Mapping[ReplicaKey, Json]) -> None:
        """Take the next step towards the end of each of these pods.

        Setting a pod's deadline to now ends it with its grace time and keeps its exit codes and logs, which deleting it
        would not. Only a pod without a node, or with one that does not react, is deleted.
        """
        at = now()
        steps = {key: next_step(PodView(pods[key], at)) for key in reasons}
        deleted = [key for key, step in steps.items() if step in (EndingStep.DELETE, EndingStep.FORCE)]
        if deleted:
            reports = [_final(judge(pods[key], at, self._limits).report, reasons[key], at) for key in deleted]
            self.amend(lambda ledger: ledger.with_ended(reports))
        with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
            for _ in pool.map(lambda key: self._take_step(steps[key], pods[key], reasons[key]), steps):
                pass

    def _take_step(self, step: EndingStep, pod: Json, reason: str) -> None:
        if step is EndingStep.ASK:
            notes = {objects.ENDING_FOR: reason, objects.ENDING_SINCE: now().isoformat()}
            change = {"metadata": {"annotations": notes}, "spec": {"activeDeadlineSeconds": 1}}
            path = f"{self._path('pods')}/{pod['metadata']['name']}"
            _ignore_missing(lambda: self._api.request("PATCH", path, body=change, content=MERGE))
        elif step is not EndingStep.WAIT:
            self._delete(pod, grace=0 if step is EndingStep.FORCE else None)

    def _delete(self, pod: Json, grace: int | None = None) -> None:
        delete_pod(self._api, pod, grace)

    def _owns(self, pod: Json) -> bool:
        owners = pod["metadata"].get("ownerReferences") or []
        return any(owner.get("uid") == self.control["metadata"]["uid"] for owner in owners)

    @property
    def _own_path(self) -> str:
        return f"{self._path('configmaps')}/{self.control['metadata']['name']}"

    def _path(self, kind: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}"


def delete_pod(api: KubernetesApi, pod: Json, grace: int | None = None) -> None:
    """Delete the pod by its UID, so that another pod of the same name is not deleted. `grace` is in seconds; None: its own."""
    metadata = pod["metadata"]
    options: Json = {"preconditions": {"uid": metadata["uid"]}}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    _ignore_missing(lambda: api.request("DELETE", path, body=options))


def _first_attempts(taskset: Mapping[str, Any]) -> list[ReplicaKey]:
    return [
        ReplicaKey(role["name"], index) for role in taskset["spec"]["roles"] for index in range(replica_count(role))
    ]


def _key(pod: Json) -> ReplicaKey | None:
    """The replica attempt of a pod; None for a pod that others created with this owner."""
    try:
        return objects.key_of(pod)
    except (KeyError, ValueError):
        return None


def _final(report: ReplicaReport, reason: str, at: datetime) -> ReplicaReport:
    """The final report of a replica attempt whose end was not observed."""
    if report.state.ended:
        return report
    state = ReplicaState.STOPPED if reason == STOPPED_REASON else ReplicaState.FAILED
    return replace(report, state=state, reason=reason, finished_at=at)


def _annotated(metadata: Json, name: str, value: str) -> Json:
    return {**metadata, "annotations": {**(metadata.get("annotations") or {}), name: value}}


def _slim(pod: Json) -> Json:
    """Remove the environments, which are not needed and may be large because of lists of hosts."""
    pod["metadata"].pop("managedFields", None)
    for kind in ("initContainers", "containers"):
        for container in pod["spec"].get(kind) or []:
            container.pop("env", None)
    return pod


def _ignore_missing(request: Callable[[], object]) -> None:
    try:
        request()
    except ApiError as error:
        if error.status not in (404, 409):
            raise
