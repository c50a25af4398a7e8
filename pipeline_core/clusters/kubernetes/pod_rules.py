"""Maps the status of a pod to the report of its replica, by a table of rules, of which the first that matches decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pipeline_core.clusters.base import ReplicaReport
from pipeline_core.clusters.kubernetes.pod_view import NOT_STARTED, PodContainer, PodView
from pipeline_core.states import ReplicaState

WAITING, RUNNING, SUCCEEDED, FAILED = (
    ReplicaState.WAITING,
    ReplicaState.RUNNING,
    ReplicaState.SUCCEEDED,
    ReplicaState.FAILED,
)

IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
CONFIG_REASONS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "PreCreateHookError",
        "PreStartHookError",
        "PostStartHookError",
    }
)
DISRUPTIONS: Mapping[str, str] = {
    "PreemptionByScheduler": "Preempted",
    "DeletionByTaintManager": "NodeLost",
    "DeletionByPodGC": "NodeLost",
    "EvictionByEvictionAPI": "Evicted",
    "TerminationByKubelet": "Evicted",
}
"""Reasons of the condition DisruptionTarget.
https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions"""

MAX_RESTARTS = 6
"""As a Kubernetes Job's default `backoffLimit`, which counts the restarts of containers too."""
CREATING_FACTOR = 6
"""Creating containers may take so many times the limit: pulling a large image takes long and is no error."""

STOPPED_REASON = "Stopped"
DEADLINE_REASON = "DeadlineExceeded"
SIDECARS_REASON = "SidecarsEnding"


class PodOutcome(StrEnum):
    """The outcome of a pod, in the words of a workflow engine."""

    FINISHED = "task_finished"
    FAIL = "task_fail"
    """It could not be started, or was not allowed to."""
    ERROR = "task_error"
    """It ran and failed."""


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """How long a pod may wait: `pending` for its images and its configuration, `scheduling` for a node."""

    pending: timedelta
    scheduling: timedelta


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a rule that matches. `reason` None means the rule's own."""

    reason: str | None = None
    exit_code: int | None = None
    message: str = ""
    state: ReplicaState | None = None
    result: PodOutcome | None = None
    end: bool = False
    """Whether the pod still runs and has to be ended."""


@dataclass(frozen=True, slots=True)
class PodRule:
    """One row of the table. `state` and `result` are None where they depend on whether a container ran."""

    when: str
    state: ReplicaState | None
    reason: str
    result: PodOutcome | None
    find: Callable[[PodView, WaitLimits], Finding | None]


def exit_code(container: PodContainer) -> int:
    """The exit code; of a command that could not be executed the one that shells give: 127 not found, 126 not executable."""
    state = container.terminated
    if state.get("reason") in NOT_STARTED:
        return 126 if "permission denied" in str(state.get("message", "")).lower() else 127
    return int(state.get("exitCode", 0))


def _exited(view: PodView) -> int | None:
    """The exit code of the first container that failed, else 0; None when none has ended."""
    if view.failed:
        return exit_code(view.failed)
    return 0 if any(one.terminated for one in view.mains) else None


def _ended_by_us(view: PodView) -> bool:
    """Whether it ended because we ended it, and not by itself just before."""
    if not view.ending_for or view.ending_for == SIDECARS_REASON or view.ending_since is None:
        return False
    if not view.ended:
        return view.ending_overdue
    own_end = view.mains_finished if view.mains_ended else None
    return own_end is None or own_end >= view.ending_since.replace(microsecond=0)


def _stopped(view: PodView, limits: WaitLimits) -> Finding | None:
    if _ended_by_us(view) and view.ending_for == STOPPED_REASON:
        return Finding(exit_code=_exited(view), end=not view.ended)
    return None


def _past_deadline(view: PodView, limits: WaitLimits) -> Finding | None:
    if _ended_by_us(view) and view.ending_for == DEADLINE_REASON:
        return Finding(exit_code=_exited(view), message=view.message, end=not view.ended)
    return None


def _sidecars_ending(view: PodView, limits: WaitLimits) -> Finding | None:
    if view.mains_ended and view.sidecars_run and not view.ending_overdue and not view.deletion_overdue:
        return Finding(end=not view.ending_for)
    return None


def _succeeded(view: PodView, limits: WaitLimits) -> Finding | None:
    mains_fine = view.mains_ended and not view.failed
    return Finding(exit_code=0) if mains_fine or view.phase == "Succeeded" else None


def _disrupted(view: PodView, limits: WaitLimits) -> Finding | None:
    if not view.ended:
        return None
    target = view.condition("DisruptionTarget")
    if view.reason:
        return Finding(view.reason, _exited(view) or None, view.message)
    if target.get("status") == "True":
        reason = str(target.get("reason") or "")
        return Finding(DISRUPTIONS.get(reason, reason), _exited(view) or None, str(target.get("message") or ""))
    return None


def _deleted(view: PodView, limits: WaitLimits) -> Finding | None:
    asked = view.deletion_asked
    if not view.ended or asked is None:
        return None
    own_end = view.mains_finished
    if own_end is not None and own_end < asked:
        return None
    return Finding(exit_code=_exited(view) or None, message="Somebody deleted the pod.")


def _container_failed(view: PodView, limits: WaitLimits) -> Finding | None:
    if not view.ended or view.failed is None:
        return None
    state = view.failed.terminated
    reason = str(state.get("reason") or "Error")
    kept = PodOutcome.FAIL if reason in NOT_STARTED else None
    reason = "StartError" if reason in NOT_STARTED else reason
    return Finding(
        f"Init:{reason}" if view.failed.init else reason,
        exit_code(view.failed),
        str(state.get("message") or ""),
        result=kept,
    )


def _failed_silently(view: PodView, limits: WaitLimits) -> Finding | None:
    return Finding(message=view.message) if view.ended else None


def _node_lost(view: PodView, limits: WaitLimits) -> Finding | None:
    target = view.condition("DisruptionTarget")
    lost = view.reason == "NodeLost" or DISRUPTIONS.get(str(target.get("reason"))) == "NodeLost"
    ready = view.condition("Ready")
    gone = lost or view.phase == "Unknown" or (ready.get("status") == "False" and not ready.get("reason"))
    if view.deletion_overdue and gone:
        return Finding(message=view.message or f"Node {view.node} did not end the pod.", end=True)
    return None


def _stuck_terminating(view: PodView, limits: WaitLimits) -> Finding | None:
    if view.deletion_overdue:
        return Finding(message=f"Somebody deleted the pod, and node {view.node} did not end it.", end=True)
    return None


def _terminating(view: PodView, limits: WaitLimits) -> Finding | None:
    return Finding() if view.deletion_asked else None


def _being_ended(view: PodView, limits: WaitLimits) -> Finding | None:
    return Finding(view.ending_for) if view.ending_for else None


def _invalid_image(view: PodView, limits: WaitLimits) -> Finding | None:
    waiting = _waiting(view, frozenset({"InvalidImageName"}))
    return Finding(message=str(waiting.get("message") or ""), end=True) if waiting else None


def _no_image(view: PodView, limits: WaitLimits) -> Finding | None:
    return _kept_waiting(view, IMAGE_REASONS, limits.pending)


def _no_configuration(view: PodView, limits: WaitLimits) -> Finding | None:
    return _kept_waiting(view, CONFIG_REASONS, limits.pending)


def _kept_waiting(view: PodView, reasons: frozenset[str], limit: timedelta) -> Finding | None:
    waiting = _waiting(view, reasons)
    if not waiting:
        return None
    overdue = view.now - view.accepted > limit
    reason = "ImagePullBackOff" if waiting["reason"] == "ErrImagePull" else str(waiting["reason"])
    return Finding(reason, None, str(waiting.get("message") or ""), FAILED if overdue else None, end=overdue)


def _crash_loop(view: PodView, limits: WaitLimits) -> Finding | None:
    for one in view.needed:
        if one.waiting.get("reason") == "CrashLoopBackOff":
            overdue = one.restarts >= MAX_RESTARTS
            return Finding(
                exit_code=int(one.last.get("exitCode", 0)) if overdue else None,
                message=str(one.last.get("message") or one.waiting.get("message") or ""),
                state=FAILED if overdue else RUNNING,
                result=PodOutcome.FAIL,
                end=overdue,
            )
    return None


def _gated(view: PodView, limits: WaitLimits) -> Finding | None:
    scheduled = view.condition("PodScheduled")
    gated = scheduled.get("reason") == "SchedulingGated"
    return Finding(message=str(scheduled.get("message") or "")) if gated else None


def _unschedulable(view: PodView, limits: WaitLimits) -> Finding | None:
    if view.node:
        return None
    scheduled = view.condition("PodScheduled")
    overdue = view.now - view.created > limits.scheduling
    message = str(scheduled.get("message") or "No scheduler has found a node for the pod.")
    reason = "Unschedulable" if scheduled or overdue else "Pending"
    return Finding(reason, None, message, FAILED if overdue else None, end=overdue)


def _creating(view: PodView, limits: WaitLimits) -> Finding | None:
    if view.began or view.phase != "Pending":
        return None
    overdue = view.now - view.accepted > CREATING_FACTOR * limits.pending
    return Finding(message=view.message, state=FAILED if overdue else None, end=overdue)


def _runs(view: PodView, limits: WaitLimits) -> Finding | None:
    lost = view.phase == "Unknown" or view.reason == "NodeLost"
    return Finding("NodeLost" if lost else "", message=view.message if lost else "")


def _waiting(view: PodView, reasons: frozenset[str]) -> Mapping[str, Any]:
    found = (one.waiting for one in view.needed if one.waiting.get("reason") in reasons)
    return next(found, {})


RULES: tuple[PodRule, ...] = (
    PodRule("it was stopped, and has ended or takes too long to", ReplicaState.STOPPED, STOPPED_REASON, None, _stopped),
    PodRule(
        "the TaskSet's deadline passed, and it has ended or takes too long to",
        FAILED,
        DEADLINE_REASON,
        None,
        _past_deadline,
    ),
    PodRule(
        "all containers that count have ended, sidecars run on: they are ended",
        RUNNING,
        SIDECARS_REASON,
        None,
        _sidecars_ending,
    ),
    PodRule(
        "all containers that count exited with 0, or phase Succeeded", SUCCEEDED, "", PodOutcome.FINISHED, _succeeded
    ),
    PodRule(
        "phase Failed with a reason of the pod's own, or condition DisruptionTarget",
        FAILED,
        "Evicted, DeadlineExceeded, NodeLost, Preempted, Shutdown…",
        None,
        _disrupted,
    ),
    PodRule("it ended when somebody deleted it", FAILED, "PodDeleted", None, _deleted),
    PodRule(
        "a container failed, in the order of the pod",
        FAILED,
        "Error, OOMKilled, StartError (task_fail)…; Init:… for an init container",
        None,
        _container_failed,
    ),
    PodRule("phase Failed, and no container says why", FAILED, "PodFailed", None, _failed_silently),
    PodRule("it should be deleted by now, and its node is gone", FAILED, "NodeLost", None, _node_lost),
    PodRule("it should be deleted by now, and is not", FAILED, "StuckTerminating", None, _stuck_terminating),
    PodRule("somebody deleted it, and it is ending", None, "Terminating", None, _terminating),
    PodRule("it is being ended", None, "Stopped, DeadlineExceeded…", None, _being_ended),
    PodRule("waiting: InvalidImageName", FAILED, "InvalidImageName", PodOutcome.FAIL, _invalid_image),
    PodRule(
        "waiting for an image; failed after PIPELINE_PENDING_TIMEOUT",
        None,
        "ImagePullBackOff, ErrImageNeverPull…",
        PodOutcome.FAIL,
        _no_image,
    ),
    PodRule(
        "waiting, its configuration is wrong; failed after PIPELINE_PENDING_TIMEOUT",
        None,
        "CreateContainerConfigError, CreateContainerError…",
        PodOutcome.FAIL,
        _no_configuration,
    ),
    PodRule(
        f"a container fails again and again; failed after {MAX_RESTARTS} restarts",
        None,
        "CrashLoopBackOff",
        PodOutcome.FAIL,
        _crash_loop,
    ),
    PodRule("held back by a scheduling gate, without limit", WAITING, "SchedulingGated", None, _gated),
    PodRule(
        "no node yet; failed after PIPELINE_SCHEDULING_TIMEOUT",
        None,
        "Unschedulable, Pending",
        PodOutcome.FAIL,
        _unschedulable,
    ),
    PodRule(
        f"on a node, nothing started yet; failed after {CREATING_FACTOR} times PIPELINE_PENDING_TIMEOUT",
        None,
        "ContainerCreating",
        PodOutcome.FAIL,
        _creating,
    ),
    PodRule("any other", None, "", None, _runs),
)
"""The table, in order of precedence. The documentation shows `when`, `reason` and `result`."""


DIAGNOSTICS_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Judgement:
    """The report of a replica, with the outcome of its pod when that has ended (None for one that was stopped)."""

    report: ReplicaReport
    result: PodOutcome | None = None
    end: bool = False


def judge(pod: Mapping[str, Any], now: datetime, limits: WaitLimits) -> Judgement:
    """The judgement on a pod. Raises KeyError or ValueError when it is not one of ours."""
    return judge_view(PodView(pod, now), limits)


def judge_view(view: PodView, limits: WaitLimits) -> Judgement:
    """The judgement on a pod that was read already."""
    rule, finding = next((rule, found) for rule in RULES if (found := rule.find(view, limits)) is not None)
    state = finding.state or rule.state or (RUNNING if view.began else WAITING)
    result = finding.result or rule.result
    if state is FAILED and result is None:
        result = PodOutcome.ERROR if view.began else PodOutcome.FAIL
    return Judgement(_report(view, state, rule, finding), result if state.ended else None, finding.end)


def count_results(judgements: Iterable[Judgement]) -> dict[str, int]:
    """How many pods have each outcome."""
    return dict(Counter(judgement.result.value for judgement in judgements if judgement.result))


def _report(view: PodView, state: ReplicaState, rule: PodRule, finding: Finding) -> ReplicaReport:
    named = view.failed or next(iter(view.mains), None)
    return ReplicaReport(
        role=view.key.role,
        index=view.key.index,
        attempt=view.key.attempt,
        state=state,
        reason=rule.reason if finding.reason is None else finding.reason,
        exit_code=finding.exit_code,
        diagnostics=finding.message.encode()[-DIAGNOSTICS_BYTES:].decode(errors="ignore"),
        started_at=view.began,
        finished_at=(view.finished or view.now) if state.ended else None,
        container_id=str(named.status.get("containerID") or "") if named else "",
        host_ip=str(view.status.get("hostIP") or ""),
        pod_name=str(view.metadata["name"]),
        pod_uid=str(view.metadata.get("uid") or ""),
        pod_ip=str(view.status.get("podIP") or ""),
        restarts=sum(one.restarts for one in view.containers if one.counts),
    )
