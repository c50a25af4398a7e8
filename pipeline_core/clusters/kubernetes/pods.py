"""A pod as the API server tells of it, read with the questions that matter here."""

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
"""How long beyond its grace time a node may take to end a pod until it is taken to be unable to."""

SETTLING_SECONDS = 2.0
"""How long after a container's end its log may still grow."""

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
        """How its last run ended when it was started again."""
        found: Mapping[str, Any] = (self.status.get("lastState") or {}).get("terminated") or {}
        return found

    @property
    def began(self) -> datetime | None:
        """When it ran first, as far as is known; None when it never did."""
        for state in (self.last, self.terminated, self.running):
            if state.get("startedAt") and state.get("reason") not in NOT_STARTED:
                return moment(state["startedAt"])
        return None

    def _state(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = (self.status.get("state") or {}).get(name) or {}
        return found


class PodView:
    """Reads a pod; `now` is what its age is measured against."""

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
        """Those whose logs are the user's."""
        return tuple(one for one in self.containers if one.name not in OURS)

    @property
    def mains(self) -> tuple[PodContainer, ...]:
        return tuple(one for one in self.containers if one.counts and not one.init)

    @property
    def needed(self) -> tuple[PodContainer, ...]:
        """Those without which it cannot do its work: native sidecars too until that has begun, as it waits for them."""
        begun = any(one.began for one in self.mains)
        return tuple(one for one in self.containers if one.counts or (one.init and not begun))

    @property
    def phase_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed") and not self._ends_ahead

    @property
    def mains_ended(self) -> bool:
        return bool(self.mains) and all(self._final(one) for one in self.mains)

    @property
    def ended(self) -> bool:
        """Whether nothing that counts will run any more."""
        return self.phase_ended or self.mains_ended

    @property
    def sidecars_run(self) -> bool:
        return not self.phase_ended and any(one.running for one in self.containers if not one.counts)

    @property
    def failed(self) -> PodContainer | None:
        """The first container that failed for good."""
        return next((one for one in self.containers if one.counts and self._final(one) and _code(one)), None)

    @property
    def restarts(self) -> bool:
        """Whether a container was started again, or is going to be."""
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

    @property
    def began(self) -> datetime | None:
        return min((one.began for one in self.containers if one.began), default=None)

    @property
    def finished(self) -> datetime | None:
        times = [moment(one.terminated["finishedAt"]) for one in self.containers if one.terminated.get("finishedAt")]
        return max(times, default=None)

    @property
    def settled(self) -> bool:
        """Whether the logs of what has ended are complete."""
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
        """When its node took it in; its creation as long as none has."""
        return moment(self.status["startTime"]) if self.status.get("startTime") else self.created

    @property
    def ending_since(self) -> datetime | None:
        since = self.annotations.get(ENDING_SINCE)
        return moment(since) if since else None

    @property
    def ending_overdue(self) -> bool:
        """Whether it was told to end and had more time for that than it may take."""
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
    def _ends_ahead(self) -> bool:
        """Kubelets before 1.22 write Failed as soon as a deadline has passed, while containers have their grace time yet,
        and say nothing after that."""
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
    """What to do next to end a pod."""

    WAIT = "wait"
    ASK = "ask"
    DELETE = "delete"
    FORCE = "force"


def next_step(view: PodView) -> EndingStep:
    """Ask; delete what has no node or does not follow; and take away by force what its node does not let go of."""
    if view.deletion_asked:
        return EndingStep.FORCE if view.deletion_overdue else EndingStep.WAIT
    if not view.node or view.ending_overdue:
        return EndingStep.DELETE
    return EndingStep.WAIT if view.ending_for or view.phase_ended else EndingStep.ASK


_SLACK = timedelta(seconds=SLACK_SECONDS)
_SETTLING = timedelta(seconds=SETTLING_SECONDS)


def moment(text: Any) -> datetime:
    """A time of the API server's."""
    return datetime.fromisoformat(text)


def _code(container: PodContainer) -> int:
    return int(container.terminated.get("exitCode", 0))
