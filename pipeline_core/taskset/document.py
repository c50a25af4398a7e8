"""A checked TaskSet, read cheaply and typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

API_VERSION = "octopus.openi.pcl.cn/v1alpha1"
KIND = "TaskSet"

RESERVED_PREFIX = "pipeline/"
"""Labels and annotations that begin so are the service's own."""

SIDECARS = "pipeline/sidecars"
"""Annotation of a role's pod template: a JSON list of the containers that do not count for the pod's success."""


COLLECT = "pipeline/collect"
"""Annotation of a TaskSet: "true" when what its containers leave in `/output` and `/metric.json` is to be collected."""


class RoleEvent(StrEnum):
    """What can become of a role."""

    ROLE_FAILED = "RoleFailed"
    ROLE_SUCCEEDED = "RoleSucceeded"
    ROLE_COMPLETED = "RoleCompleted"


class RoleAction(StrEnum):
    """What a role's end does to the TaskSet; `TaskSetCompleted` gives it the state of the role that caused it."""

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
    """Whether, after how many seconds and how often something that failed is tried again."""

    retry: bool = False
    delay: float = 0.0
    max_retry_count: int = 0

    def allows(self, attempt: int) -> bool:
        """Whether another attempt may follow the failed one; `attempt` counts from 0."""
        return self.retry and attempt < self.max_retry_count


@dataclass(frozen=True, slots=True)
class Role:
    """One role with its defaults filled in, all but its pod template."""

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
    """How the TaskSet as a whole is tried again."""
    return _retry(taskset["spec"])


def active_deadline(taskset: Mapping[str, Any]) -> int | None:
    """Seconds that the TaskSet may take from its first replica's start; None when it may take any time."""
    seconds = taskset["spec"].get("activeDeadlineSeconds")
    return None if seconds is None else int(seconds)


def namespace(taskset: Mapping[str, Any]) -> str | None:
    """The namespace that the document names, if it does."""
    return (taskset.get("metadata") or {}).get("namespace")


def named(taskset: Mapping[str, Any], job_id: str, namespace: str | None = None) -> dict[str, Any]:
    """A copy whose `metadata.name` is the job's ID, and that is in `namespace` unless that is None."""
    metadata = {**(taskset.get("metadata") or {}), "name": job_id}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {**taskset, "metadata": metadata}


def collects(taskset: Mapping[str, Any]) -> bool:
    """Whether the TaskSet asks for its results to be collected."""
    annotations = (taskset.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(COLLECT) == "true")


def sidecars(template: Mapping[str, Any]) -> tuple[str, ...]:
    """Containers of a pod template that are marked as not counting for success, in the order of the mark."""
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    try:
        names = json.loads(annotations.get(SIDECARS, "[]"))
    except ValueError:
        return ()
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def counting(template: Mapping[str, Any]) -> tuple[str, ...]:
    """Containers that decide whether a replica succeeded. There is always one: were all marked, all would count."""
    names = tuple(container["name"] for container in template["spec"]["containers"])
    marked = frozenset(sidecars(template))
    return tuple(name for name in names if name not in marked) or names


def _role(role: Mapping[str, Any]) -> Role:
    replicas = int(role.get("replicas", 1))
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
