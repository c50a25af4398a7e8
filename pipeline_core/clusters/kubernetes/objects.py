"""The Kubernetes objects of a job attempt: the control ConfigMap, the Service and the pods, and their names."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from pipeline_core.clusters.base import ClusterError, LaunchRequest, ReplicaKey
from pipeline_core.clusters.kubernetes import collector
from pipeline_core.clusters.logs import ReplicaAttempt
from pipeline_core.taskset.document import collects, replica_count

Json = dict[str, Any]

JOB, ROLE, INDEX, ATTEMPT = "pipeline/job-id", "pipeline/role", "pipeline/replica-index", "pipeline/attempt"
REPLICA_ATTEMPT = "pipeline/replica-attempt"
STOPPED = "pipeline/stopped"
"""Label of the control ConfigMap of an attempt that may not run any more."""
USER, STOPPED_AT, CLEARED = "pipeline/user", "pipeline/stopped-at", "pipeline/cleared"
"""Annotations of a control ConfigMap."""
LATEST = "pipeline/latest-attempt"
"""Annotation of the control ConfigMap of a job's first attempt: the number of the last one, when there are others."""
ENDING_FOR, ENDING_SINCE = "pipeline/ending-for", "pipeline/ending-since"
"""Annotations of a pod that is being ended: the reason, and the time."""

TASKSET_KEY = "taskset.json"
LONGEST_VARIABLE = 96 * 1024
"""Linux starts no program with a variable above 128 KiB, so longer lists of hosts are left out."""

_JOB = re.compile(r"[a-z]([-a-z0-9]{0,39}[a-z0-9])?")


def control_configmap_name(job_id: str, attempt: int) -> str:
    return f"c-{job_id}-{attempt}"


def pod_name(job_id: str, attempt: int, key: ReplicaKey) -> str:
    return f"{job_id}-{key.role}-{attempt}-{key.attempt}-{key.index}"


def key_of(pod: Mapping[str, Any]) -> ReplicaKey:
    """The replica attempt of a pod, by its name, since users may change labels.

    Raises KeyError or ValueError when the pod is not one of ours.
    """
    metadata = pod["metadata"]
    found = replica_attempt_of_pod(metadata["labels"][JOB], metadata["name"])
    if found is None:
        raise ValueError(f"{metadata['name']} is no pod of a job's")
    return found[1]


def replica_attempt_of_pod(job_id: str, name: str) -> ReplicaAttempt | None:
    """The job attempt and the replica attempt in a pod's name; None when the pod is not one of the job."""
    if not name.startswith(f"{job_id}-"):
        return None
    role, *numbers = name[len(job_id) + 1 :].rsplit("-", 3)
    if not role or len(numbers) != 3 or not all(map(str.isdecimal, numbers)):
        return None
    attempt, replica_attempt, index = map(int, numbers)
    return attempt, ReplicaKey(role, index, replica_attempt)


def platform_of(job_id: str, attempt: int, namespace: str, uid: str, results: Mapping[str, int]) -> Json:
    """The platform fields of an observation. `uid` is that of the control ConfigMap; `results` counts the pods by outcome."""
    name = control_configmap_name(job_id, attempt)
    return {
        "platform": "kubernetes",
        "namespace": namespace,
        "controlUnit": name,
        "configMapName": name,
        "configMapUID": uid,
        "unitResults": dict(results),
    }


def is_job_id(text: str) -> bool:
    """Whether the text can be the name of a Service and the value of a label."""
    return _JOB.fullmatch(text) is not None


def control_configmap(request: LaunchRequest) -> Json:
    """The control ConfigMap, which owns all other objects of a job attempt."""
    if not is_job_id(request.job_id):
        raise ClusterError(f'the job\'s ID "{request.job_id}" cannot be the name of a Service')
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": control_configmap_name(request.job_id, request.attempt),
            "namespace": request.namespace,
            "labels": {JOB: request.job_id, ATTEMPT: str(request.attempt)},
            "annotations": {USER: request.user_id},
        },
        "data": {TASKSET_KEY: json.dumps(request.taskset, separators=(",", ":"), ensure_ascii=False)},
    }


def service(request: LaunchRequest, owner: Mapping[str, Any]) -> Json:
    """The headless Service by which replicas find each other, whether they are ready or not."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": request.job_id,
            "namespace": request.namespace,
            "labels": {JOB: request.job_id},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {JOB: request.job_id}},
    }


def owner_reference(control: Mapping[str, Any]) -> Json:
    metadata = control["metadata"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}


class PodMaker:
    """Makes the pods of one job attempt.

    `pull_secrets` are for pods that name none, `grace_seconds` for those without a grace period of their own,
    `collector_image` for a TaskSet that asks for its results.
    """

    def __init__(
        self,
        request: LaunchRequest,
        owner: Mapping[str, Any],
        *,
        pull_secrets: tuple[str, ...],
        grace_seconds: float,
        collector_image: str = "",
    ) -> None:
        self._request = request
        self._owner = owner_reference(owner)
        self._pull_secrets = [{"name": name} for name in pull_secrets]
        self._collector_image = collector_image
        self._grace_seconds = max(1, math.ceil(grace_seconds))
        self._roles = {role["name"]: role for role in request.taskset["spec"]["roles"]}
        self._hosts = _hosts(request.job_id, self._roles)

    def pod(self, key: ReplicaKey) -> Json:
        """The pod of a replica attempt. Raises ClusterError when the TaskSet has no such role."""
        if key.role not in self._roles:
            raise ClusterError(f'the TaskSet has no role "{key.role}"')
        template = _plain(self._roles[key.role]["template"])
        spec = template["spec"]
        spec.setdefault("restartPolicy", "Never")
        spec.setdefault("terminationGracePeriodSeconds", self._grace_seconds)
        spec["hostname"] = f"{key.role}-{key.index}"
        spec["subdomain"] = self._request.job_id
        if self._pull_secrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = self._pull_secrets
        variables = [{"name": name, "value": value} for name, value in self._variables(key).items()]
        for container in (*(spec.get("initContainers") or []), *spec["containers"]):
            container["env"] = [*variables, *(container.get("env") or [])]
            container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
        if collects(self._request.taskset):
            collector.equip(template, self._collector_image)
        metadata = template.get("metadata") or {}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod_name(self._request.job_id, self._request.attempt, key),
                "namespace": self._request.namespace,
                "labels": {
                    **(metadata.get("labels") or {}),
                    JOB: self._request.job_id,
                    ROLE: key.role,
                    INDEX: str(key.index),
                    ATTEMPT: str(self._request.attempt),
                    REPLICA_ATTEMPT: str(key.attempt),
                },
                "annotations": metadata.get("annotations") or {},
                "ownerReferences": [self._owner],
            },
            "spec": spec,
        }

    def _variables(self, key: ReplicaKey) -> dict[str, str]:
        return {
            "TASKSET_NAMESPACE": self._request.namespace,
            "TASKSET_NAME": (self._request.taskset.get("metadata") or {}).get("name") or self._request.job_id,
            "TASKROLE_NAME": key.role,
            "TASKROLE_REPLICA_INDEX": str(key.index),
            **self._hosts,
        }


def _plain(value: Any) -> Any:
    """A copy as Kubernetes reads it: what is null is left out, and 2.0 is 2, since a pod has no other numbers than integers."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


def _hosts(job_id: str, roles: Mapping[str, Any]) -> dict[str, str]:
    lists = {
        f"TASKROLE_HOSTS_{name.upper().replace('-', '_')}": ",".join(
            f"{name}-{index}.{job_id}" for index in range(replica_count(role))
        )
        for name, role in roles.items()
    }
    return {name: hosts for name, hosts in lists.items() if len(hosts) <= LONGEST_VARIABLE}
