"""Reading a TaskSet that has passed `schema.check`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

API_VERSION = "octopus.openi.pcl.cn/v1alpha1"
KIND = "TaskSet"

RESERVED_PREFIX = "pipeline/"
"""Prefix of the labels and annotations that only the service sets."""

SIDECARS = "pipeline/sidecars"
"""Annotation of a role's pod template: a JSON list of the containers that do not count for the pod's success."""


COLLECT = "pipeline/collect"
"""Annotation of a TaskSet: "true" when what its containers leave in `/output` and `/metric.json` is to be collected."""


class RoleEvent(StrEnum):
    """An event of a role, in its event policy."""

    ROLE_FAILED = "RoleFailed"
    ROLE_SUCCEEDED = "RoleSucceeded"
    ROLE_COMPLETED = "RoleCompleted"


class RoleAction(StrEnum):
    """What an event of a role does to the TaskSet; `TaskSetCompleted` gives it the state of the role that caused it."""

    TASKSET_FAILED = "TaskSetFailed"
    TASKSET_SUCCEEDED = "TaskSetSucceeded"
    TASKSET_COMPLETED = "TaskSetCompleted"
    NO_ACTION = "NoAction"


@dataclass(frozen=True, slots=True)
class EventRule:
    """One entry of an event policy."""

    event: RoleEvent
    action: RoleAction


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Whether something that failed is retried, after how many seconds, and how often."""

    retry: bool = False
    delay: float = 0.0
    max_retry_count: int = 0

    def allows(self, attempt: int) -> bool:
        """Whether another attempt may follow the failed one; `attempt` counts from 0."""
        return self.retry and attempt < self.max_retry_count


@dataclass(frozen=True, slots=True)
class Role:
    """One role with its defaults, without its pod template."""

    name: str
    replicas: int = 1
    min_succeeded: int = 1
    max_failed: int = 1
    event_policy: tuple[EventRule, ...] = (EventRule(RoleEvent.ROLE_FAILED, RoleAction.TASKSET_FAILED),)
    retry: RetryPolicy = RetryPolicy()


def roles(taskset: Mapping[str, Any]) -> tuple[Role, ...]:
    """The roles, in the document's order, with all defaults. The TaskSet must have passed `schema.check`."""
    return tuple(_role(role) for role in taskset["spec"]["roles"])


def retry_policy(taskset: Mapping[str, Any]) -> RetryPolicy:
    """The retry policy of the whole TaskSet."""
    return _retry(taskset["spec"])


def active_deadline(taskset: Mapping[str, Any]) -> int | None:
    """Seconds that the TaskSet may take from the start of its first replica; None when there is no limit."""
    seconds = taskset["spec"].get("activeDeadlineSeconds")
    return None if seconds is None else int(seconds)


def namespace(taskset: Mapping[str, Any]) -> str | None:
    """The namespace in the document, None when it has none."""
    return (taskset.get("metadata") or {}).get("namespace")


def named(taskset: Mapping[str, Any], job_id: str, namespace: str | None = None) -> dict[str, Any]:
    """A copy with the job's ID as `metadata.name`, and with this namespace unless it is None."""
    metadata = {**(taskset.get("metadata") or {}), "name": job_id}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {**taskset, "metadata": metadata}


def collects(taskset: Mapping[str, Any]) -> bool:
    """Whether the TaskSet asks for its results to be collected."""
    annotations = (taskset.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(COLLECT) == "true")


def replica_count(role: Mapping[str, Any]) -> int:
    """The number of replicas of a role; JSON may write it as 2.0."""
    return int(role.get("replicas", 1))


def sidecars(template: Mapping[str, Any]) -> tuple[str, ...]:
    """The containers of a pod template that its annotation marks as sidecars, in the order of the annotation."""
    text = sidecars_text(template)
    return read_sidecars(text) or () if text else ()


def sidecars_text(template: Mapping[str, Any]) -> str | None:
    """The annotation of a pod template that marks sidecars; None when it has none."""
    text: str | None = ((template.get("metadata") or {}).get("annotations") or {}).get(SIDECARS)
    return text


def read_sidecars(text: str) -> tuple[str, ...] | None:
    """The names in an annotation that marks sidecars; None when it is not a JSON list of texts."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def counting(template: Mapping[str, Any]) -> tuple[str, ...]:
    """The containers that decide whether a replica succeeded. There is always one: if all are marked, all count."""
    names = tuple(container["name"] for container in template["spec"]["containers"])
    marked = frozenset(sidecars(template))
    return tuple(name for name in names if name not in marked) or names


def _role(role: Mapping[str, Any]) -> Role:
    replicas = replica_count(role)
    policy = role.get("completionPolicy") or {}
    return Role(
        name=role["name"],
        replicas=replicas,
        min_succeeded=int(policy.get("minSucceeded", replicas)),
        max_failed=max(1, int(policy.get("maxFailed", 1))),
        event_policy=_events(role.get("eventPolicy") or ()),
        retry=_retry(role),
    )


def _events(entries: Any) -> tuple[EventRule, ...]:
    rules = tuple(EventRule(RoleEvent(entry["event"]), RoleAction(entry["action"])) for entry in entries)
    if any(rule.event in (RoleEvent.ROLE_FAILED, RoleEvent.ROLE_COMPLETED) for rule in rules):
        return rules
    return (*rules, EventRule(RoleEvent.ROLE_FAILED, RoleAction.TASKSET_FAILED))


def _retry(holder: Mapping[str, Any]) -> RetryPolicy:
    policy = holder.get("retryPolicy") or {}
    return RetryPolicy(
        retry=policy.get("retry", False),
        delay=float(policy.get("delay", 0)),
        max_retry_count=int(policy.get("maxRetryCount", 0)),
    )
