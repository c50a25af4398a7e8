"""The packets that a check sends: one that is right, and variants of it that are right, too."""

from __future__ import annotations

import copy
import json
from typing import Any

from pipeline_core.plugins.types import PluginType

Document = dict[str, Any]

JOB_ID = "j01kcheck0000000000000000000"
REPLICAS = 500
LARGE = 870 * 1024
"""Bytes of the large TaskSet: what plugins add has to fit, too, below the 900 KiB that a TaskSet may have."""
TEXT = "Grüße, 漢字, עברית, \U0001f680, \u200b\u2028 \"quotes\" <tags> & 'more'"
ADVICE: tuple[Any, ...] = (None, True, 0, -1.5, 1e300, "", "high", [], [[1, [2]]], {}, {"deep": {"list": [None, {}]}})
_LISTS = frozenset({"roles", "containers", "initContainers", "volumes", "volumeMounts", "env", "ports", "tolerations"})


def built_in(plugin_type: PluginType) -> Document:
    """A packet of the type, as simple as most are."""
    if plugin_type is PluginType.LIFE_HOOK:
        return event()
    factors = {"priority": [{"topic": "priority", "advice": 7, "reason": "the team pays"}]}
    early = plugin_type in (PluginType.TEMPLATE_TRANSLATOR, PluginType.FACTOR_GENERATOR)
    header = {"team": "vision", "userID": "ann", "jobName": "check", "jobKind": "TaskSet", "jobID": JOB_ID}
    return {"factors": {} if early else factors, "header": header, "job": taskset()}


def event() -> Document:
    """An event as a LifeHook is sent it."""
    return {
        "id": JOB_ID,
        "current_state": "running",
        "currentState": "running",
        "previousState": "waiting",
        "userID": "ann",
        "jobName": "check",
        "jobKind": "TaskSet",
        "namespace": "default",
        "reason": "",
        "sequence": 2,
        "occurredAt": "2026-01-31T12:00:00.500000Z",
        "currentTime": "2026-01-31T12:00:01.000000Z",
    }


def taskset() -> Document:
    """A TaskSet with two roles, a script and a plain command, and what decorators often touch."""
    script = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "echo hello from $TASKROLE_NAME"],
        "env": [{"name": "TEAM", "value": "vision"}, {"name": "LEVEL", "value": "1"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    plain = {"name": "side", "image": "busybox", "command": ["sleep", "1"]}
    image = {"name": "main", "image": "busybox"}
    first = {"containers": [script, plain], "volumes": [{"name": "data", "emptyDir": {}}]}
    roles = [
        {"name": "main", "replicas": 2, "template": {"metadata": {"labels": {"team": "vision"}}, "spec": first}},
        {"name": "other", "template": {"spec": {"containers": [image]}}},
    ]
    return {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "spec": {"roles": roles},
        "metadata": {"name": JOB_ID, "namespace": "default"},
    }


def with_unknown_fields(packet: Document) -> Document:
    """With fields that a later version of the service may add."""
    changed = {**copy.deepcopy(packet), "addedLater": {"list": [1, None]}, "another": "text"}
    if "header" in changed:
        changed["header"]["addedLater"] = {"deep": [True]}
    for factors in changed.get("factors", {}).values():
        for factor in factors:
            factor["weight"] = 0.5
    return changed


def without_factors(packet: Document) -> Document:
    return {**packet, "factors": {}}


def with_many_factors(packet: Document) -> Document:
    """With many topics, the packet's own among them, and any JSON as advice."""
    topics = [*packet["factors"], "priority", *(f"topic-{number}" for number in range(50))]
    return {
        **packet,
        "factors": {
            topic: [{"topic": topic, "advice": advice, "reason": "why"} for advice in ADVICE] for topic in topics
        },
    }


def with_unicode(packet: Document) -> Document:
    """With texts of all scripts; an unpaired surrogate, which JSON may have, stands where no plugin has to give it back."""
    changed = copy.deepcopy(packet)
    if "header" not in changed:
        return {**changed, "jobName": TEXT, "userID": "Jürgen", "reason": TEXT}
    changed["header"] |= {"userID": "Jürgen 漢", "jobName": TEXT, "note": "\ud800"}
    if is_taskset(changed["job"]):
        _annotations(changed)["example.com/note"] = TEXT
    return changed


def with_many_replicas(packet: Document) -> Document:
    changed = copy.deepcopy(packet)
    changed["job"]["spec"]["roles"][0]["replicas"] = REPLICAS
    return changed


def with_large_taskset(packet: Document) -> Document:
    """With a TaskSet of LARGE bytes as compact JSON."""
    changed = copy.deepcopy(packet)
    annotations = _annotations(changed)
    annotations["example.com/filler"] = ""
    size = len(json.dumps(changed["job"], ensure_ascii=False, separators=(",", ":")).encode())
    annotations["example.com/filler"] = "x" * max(0, LARGE - size)
    return changed


def in_odd_order(packet: Document) -> Document:
    """With keys and lists of the TaskSet the other way round, as another client may write them."""
    return {**packet, "job": _reversed(packet["job"], "")}


def is_taskset(job: Any) -> bool:
    return isinstance(job, dict) and job.get("kind") == "TaskSet"


def encoded(packet: Any) -> bytes:
    """The body of a request, in ASCII as the service sends it."""
    return json.dumps(packet, separators=(",", ":")).encode("ascii")


def _annotations(packet: Document) -> Document:
    job = packet["job"]
    job["metadata"] = job.get("metadata") or {}
    annotations: Document = job["metadata"].get("annotations") or {}
    job["metadata"]["annotations"] = annotations
    return annotations


def _reversed(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key], key) for key in reversed(value)}
    if isinstance(value, list):
        elements = [_reversed(element, "") for element in value]
        return elements[::-1] if name in _LISTS else elements
    return value
