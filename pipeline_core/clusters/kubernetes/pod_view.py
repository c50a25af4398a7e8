"""A pod as the API server describes it, with the properties that its state follows from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cached_property
from typing import Any

from pipeline_core.clusters.kubernetes.collector import OURS
from pipeline_core.clusters.kubernetes.objects import ENDING_FOR, ENDING_SINCE, key_of
from pipeline_core.taskset.document import counting as counting_containers

SLACK_SECONDS = 30.0
"""How long after its grace time a pod may run until its node counts as lost."""

SETTLING_SECONDS = 2.0
"""How long after the end of a container its log may still grow."""

NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of containers that have terminated and never ran."""


@dataclass(frozen=True, slots=True)
class PodContainer:
    """One container with its status. `counts` is false for sidecars."""

    name: str
    init: bool
    counts: bool
    status: Mapping[str, Any]

    @property
    def waiting(self) -> Mapping[str, Any]:
        return self._state("waiting")

    @property
    def running(self) -> Mapping[str, Any]:
        return self._state("running")

    @property
    def terminated(self) -> Mapping[str, Any]:
        return self._state("terminated")

    @property
    def restarts(self) -> int:
        return int(self.status.get("restartCount", 0))

    @property
    def last(self) -> Mapping[str, Any]:
        """How its previous run ended, when it was restarted."""
        found: Mapping[str, Any] = (self.status.get("lastState") or {}).get("terminated") or {}
        return found

    @property
    def began(self) -> datetime | None:
        """When it first ran, as far as the status says; None when it never did."""
        for state in (self.last, self.terminated, self.running):
            if state.get("startedAt") and state.get("reason") not in NOT_STARTED:
                return moment(state["startedAt"])
        return None

    def _state(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = (self.status.get("state") or {}).get(name) or {}
        return found


class PodView:
    """A pod of ours at the time `now`, read once. Raises KeyError or ValueError when it is not one of ours."""

    def __init__(self, pod: Mapping[str, Any], now: datetime) -> None:
        self.now = now
        self._pod = pod
        self.metadata: Mapping[str, Any] = pod["metadata"]
        self.spec: Mapping[str, Any] = pod.get("spec") or {}
        self.status: Mapping[str, Any] = pod.get("status") or {}
        self.key = key_of(pod)
        self.annotations: Mapping[str, str] = self.metadata.get("annotations") or {}
        self.phase: str = self.status.get("phase", "Pending")
        self.reason: str = self.status.get("reason") or ""
        self.message: str = self.status.get("message") or ""
        self.ending_for = self.annotations.get(ENDING_FOR, "")

    @cached_property
    def containers(self) -> tuple[PodContainer, ...]:
        """Init containers first, each kind in the order of the pod."""
        return tuple(self._containers())

    @property
    def logged(self) -> tuple[PodContainer, ...]:
        """The containers whose logs are shown to users."""
        return tuple(one for one in self.containers if one.name not in OURS)

    @cached_property
    def mains(self) -> tuple[PodContainer, ...]:
        return tuple(one for one in self.containers if one.counts and not one.init)

    @cached_property
    def needed(self) -> tuple[PodContainer, ...]:
        """The containers that the pod needs: those that count, and native sidecars until the main containers have begun."""
        begun = any(one.began for one in self.mains)
        return tuple(one for one in self.containers if one.counts or (one.init and not begun))

    @cached_property
    def phase_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed") and not self._phase_is_ahead

    @cached_property
    def mains_ended(self) -> bool:
        return bool(self.mains) and all(self._final(one) for one in self.mains)

    @property
    def ended(self) -> bool:
        """Whether no container that counts will run any more."""
        return self.phase_ended or self.mains_ended

    @property
    def sidecars_run(self) -> bool:
        return not self.phase_ended and any(one.running for one in self.containers if not one.counts)

    @cached_property
    def failed(self) -> PodContainer | None:
        """The first container that failed for good."""
        return next((one for one in self.containers if one.counts and self._final(one) and _code(one)), None)

    @property
    def restarts(self) -> bool:
        """Whether a container was restarted, or will be."""
        return any(
            one.restarts or (one.terminated and not self._final(one) and not self.phase_ended)
            for one in self.containers
        )

    @property
    def node(self) -> str:
        return str(self.spec.get("nodeName") or "")

    @property
    def grace(self) -> timedelta:
        return timedelta(seconds=self.spec.get("terminationGracePeriodSeconds", 30))

    @cached_property
    def began(self) -> datetime | None:
        return min((one.began for one in self.containers if one.began), default=None)

    @property
    def finished(self) -> datetime | None:
        times = [moment(one.terminated["finishedAt"]) for one in self.containers if one.terminated.get("finishedAt")]
        return max(times, default=None)

    @property
    def settled(self) -> bool:
        """Whether the logs of ended containers are complete."""
        return self.finished is None or self.now >= self.finished + _SETTLING

    @property
    def mains_finished(self) -> datetime | None:
        times = [moment(one.terminated["finishedAt"]) for one in self.mains if one.terminated.get("finishedAt")]
        return max(times, default=None)

    @property
    def created(self) -> datetime:
        return moment(self.metadata["creationTimestamp"])

    @property
    def accepted(self) -> datetime:
        """When its node accepted it; its creation as long as none has."""
        return moment(self.status["startTime"]) if self.status.get("startTime") else self.created

    @property
    def ending_since(self) -> datetime | None:
        since = self.annotations.get(ENDING_SINCE)
        return moment(since) if since else None

    @property
    def ending_overdue(self) -> bool:
        """Whether it is being ended and has taken longer than it may."""
        return self.ending_since is not None and self.now > self.ending_since + self.grace + _SLACK

    @property
    def deletion_asked(self) -> datetime | None:
        if not self.metadata.get("deletionTimestamp"):
            return None
        seconds = self.metadata.get("deletionGracePeriodSeconds") or 0
        return moment(self.metadata["deletionTimestamp"]) - timedelta(seconds=seconds)

    @property
    def deletion_overdue(self) -> bool:
        stamp = self.metadata.get("deletionTimestamp")
        return bool(stamp) and self.now > moment(stamp) + _SLACK

    @property
    def _phase_is_ahead(self) -> bool:
        """Whether the phase is ahead of the containers: kubelets before 1.22 report Failed as soon as a deadline has passed,
        while containers still have their grace time.
        """
        since = self.ending_since
        runs = any(one.running for one in self.containers)
        return runs and since is not None and self.now < since + self.grace + _SETTLING

    def condition(self, kind: str) -> Mapping[str, Any]:
        conditions = self.status.get("conditions") or []
        return next((one for one in conditions if one.get("type") == kind), {})

    def _final(self, container: PodContainer) -> bool:
        if not container.terminated:
            return False
        return self.phase_ended or _code(container) == 0 or self.spec.get("restartPolicy") == "Never"

    def _containers(self) -> Iterator[PodContainer]:
        counting = counting_containers(self._pod)
        for field, init in (("initContainer", True), ("container", False)):
            statuses = {one["name"]: one for one in self.status.get(f"{field}Statuses") or []}
            for spec in self.spec.get(f"{field}s") or []:
                native = init and spec.get("restartPolicy") == "Always"
                counts = not native and (init or spec["name"] in counting)
                yield PodContainer(spec["name"], init, counts, statuses.get(spec["name"], {}))


class EndingStep(Enum):
    """The next step to end a pod."""

    WAIT = "wait"
    ASK = "ask"
    DELETE = "delete"
    FORCE = "force"


def next_step(view: PodView) -> EndingStep:
    """Set its deadline; delete it when it has no node or does not react; delete it by force when its node does not."""
    if view.deletion_asked:
        return EndingStep.FORCE if view.deletion_overdue else EndingStep.WAIT
    if not view.node or view.ending_overdue:
        return EndingStep.DELETE
    return EndingStep.WAIT if view.ending_for or view.phase_ended else EndingStep.ASK


_SLACK = timedelta(seconds=SLACK_SECONDS)
_SETTLING = timedelta(seconds=SETTLING_SECONDS)


def moment(text: Any) -> datetime:
    """A time stamp of the API server."""
    return datetime.fromisoformat(text)


def _code(container: PodContainer) -> int:
    return int(container.terminated.get("exitCode", 0))
