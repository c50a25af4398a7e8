"""Makes the plan of a supervisor from a TaskSet: checked, with all references resolved."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from pipeline_core.clusters.base import LaunchRequest
from pipeline_core.clusters.local.cgroups import PERIOD_MICROSECONDS, Place
from pipeline_core.clusters.local.fields import (
    CONTAINER,
    LIMITS,
    MOUNT,
    POD,
    RESOURCES,
    VALUE_FROM,
    VOLUME,
    refuse,
    review,
)
from pipeline_core.taskset import quantities
from pipeline_core.taskset.document import counting, replica_count

LEAST_QUOTA_MICROSECONDS = 1000
"""The smallest CPU time that the kernel takes as a limit."""
GREATEST_QUOTA_MICROSECONDS = Decimal(2**44 - 1)
"""The greatest one."""
GREATEST_MEMORY = Decimal(2**63 - 1)
"""Bytes; Kubernetes reads a greater quantity as this one."""

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ROLE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_JOB = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,127}")


def is_job_id(text: str) -> bool:
    """Whether the text can be the ID of a job, whose directory is named by it."""
    return _JOB.fullmatch(text) is not None


def make_plan(
    request: LaunchRequest,
    root: Path,
    *,
    slots: int,
    grace_seconds: float,
    instance: str,
    log_limit: int = 0,
    cgroups: Place | None = None,
    cgroup_problem: str = "",
) -> dict[str, Any]:
    """The plan of one attempt, as JSON.

    `slots` is how many replicas run at a time, 0 without a limit; `grace_seconds` is the default grace time of pods;
    `log_limit` is how many bytes the log of a container may have, 0 without a limit; `cgroup_problem` is why there are no
    control groups. Raises ClusterError, with the path of the wrong field.
    """
    if not is_job_id(request.job_id):
        raise refuse("metadata.name", f'"{request.job_id}" cannot be the name of a directory')
    _check_name(request.namespace, "metadata.namespace")
    spec = request.taskset["spec"]
    notes: list[str] = []
    roles = {}
    for number, role in enumerate(spec["roles"]):
        path = f"spec.roles[{number}]"
        if _ROLE.fullmatch(role["name"]) is None:
            raise refuse(f"{path}.name", f'"{role["name"]}" is not a name of lower-case letters, digits and hyphens')
        planner = _PodPlanner(role["template"], f"{path}.template", root, request.namespace, notes, cgroup_problem)
        roles[role["name"]] = {"replicas": replica_count(role), **planner.plan(grace_seconds)}
    size = sum(role["replicas"] for role in roles.values())
    if 0 < slots < size:
        notes.append(f"spec.roles: of {size} replicas, {slots} run at a time (PIPELINE_LOCAL_SLOTS), never all at once")
    return {
        "job": request.job_id,
        "attempt": request.attempt,
        "namespace": request.namespace,
        "user": request.user_id,
        "name": (request.taskset.get("metadata") or {}).get("name") or request.job_id,
        "instance": instance,
        "apiVersion": request.taskset.get("apiVersion", ""),
        "deadline": spec.get("activeDeadlineSeconds"),
        "logLimit": log_limit,
        "root": str(root),
        "cgroups": cgroups,
        "base": {"PATH": os.environ.get("PATH") or DEFAULT_PATH, "LANG": os.environ.get("LANG") or "C.UTF-8"},
        "roles": roles,
        "notes": list(dict.fromkeys(notes)),
    }


def has_mounts(plan: Mapping[str, Any]) -> bool:
    """Whether any container of the plan needs a mount namespace."""
    roles = plan["roles"].values()
    return any(container["mounts"] for role in roles for container in (*role["init"], *role["containers"]))


class _PodPlanner:
    """Plans one role's pods; what has no effect is added to `notes`."""

    def __init__(
        self,
        template: Mapping[str, Any],
        path: str,
        root: Path,
        namespace: str,
        notes: list[str],
        cgroup_problem: str,
    ) -> None:
        self._spec = template["spec"]
        self._path = f"{path}.spec"
        self._root = root
        self._namespace = namespace
        self._notes = notes
        self._cgroup_problem = cgroup_problem
        self._counting = counting(template)

    def plan(self, grace_seconds: float) -> dict[str, Any]:
        spec, path = self._spec, self._path
        self._note(review(spec, POD, path))
        restart = spec.get("restartPolicy") or "Never"
        if restart not in ("Never", "OnFailure"):
            raise refuse(f"{path}.restartPolicy", f'"{restart}" is neither Never nor OnFailure')
        grace = spec.get("terminationGracePeriodSeconds")
        volumes = {volume["name"]: self._volume(volume, f"{path}.volumes[{n}]") for n, volume in _each(spec, "volumes")}
        containers = [self._container(one, f"{path}.containers[{n}]", volumes) for n, one in _each(spec, "containers")]
        inits = [self._init(one, f"{path}.initContainers[{n}]", volumes) for n, one in _each(spec, "initContainers")]
        return {
            "restart": restart,
            "deadline": spec.get("activeDeadlineSeconds"),
            "grace": grace_seconds if grace is None else grace,
            "init": inits,
            "containers": containers,
        }

    def _note(self, notes: Iterable[str]) -> None:
        self._notes.extend(notes)

    def _init(self, container: Mapping[str, Any], path: str, volumes: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._container(container, path, volumes), "sidecar": container.get("restartPolicy") == "Always"}

    def _container(self, container: Mapping[str, Any], path: str, volumes: Mapping[str, Any]) -> dict[str, Any]:
        self._note(review(container, CONTAINER, path))
        _check_name(container["name"], f"{path}.name")
        command = container.get("command") or []
        if not command:
            raise refuse(f"{path}.command", "there is none, and the image's own is unknown since images are not used")
        directory = container.get("workingDir") or ""
        if directory and not directory.startswith("/"):
            raise refuse(f"{path}.workingDir", f'"{directory}" is not an absolute path')
        return {
            "name": container["name"],
            "argv": [*command, *(container.get("args") or [])],
            "env": [(one["name"], _value(one, f"{path}.env[{n}]")) for n, one in _each(container, "env")],
            "directory": directory,
            "limits": self._limits(container.get("resources") or {}, f"{path}.resources"),
            "mounts": [
                self._mount(one, f"{path}.volumeMounts[{n}]", volumes) for n, one in _each(container, "volumeMounts")
            ],
            "sidecar": container["name"] not in self._counting,
        }

    def _limits(self, resources: Mapping[str, Any], path: str) -> dict[str, int]:
        """Memory in bytes, CPU in microseconds of every period."""
        self._note(review(resources, RESOURCES, path))
        limits, path = resources.get("limits") or {}, f"{path}.limits"
        self._note(review(limits, LIMITS, path))
        memory, cpu = (_quantity(limits.get(name), f"{path}.{name}") for name in ("memory", "cpu"))
        found = {}
        if memory is not None:
            found["memory"] = math.ceil(min(memory, GREATEST_MEMORY))
        if cpu is not None:
            quota = math.ceil(min(cpu * PERIOD_MICROSECONDS, GREATEST_QUOTA_MICROSECONDS))
            found["cpu"] = max(quota, LEAST_QUOTA_MICROSECONDS)
        if found and self._cgroup_problem:
            self._notes.append(f"{path} has no effect: no control groups can be made here: {self._cgroup_problem}")
        return found

    def _volume(self, volume: Mapping[str, Any], path: str) -> dict[str, Any]:
        _check_name(volume["name"], f"{path}.name")
        kind = next((name for name, value in volume.items() if name != "name" and value is not None), "emptyDir")
        if kind not in VOLUME:
            raise refuse(f"{path}.{kind}", f"of volumes, it knows only {', '.join(VOLUME)}")
        source = volume.get(kind) or {}
        if kind == "configMap":
            return {"source": self._config_map(source, f"{path}.configMap"), "readOnly": True}
        if kind == "persistentVolumeClaim":
            claim = source.get("claimName", "")
            _check_name(claim, f"{path}.persistentVolumeClaim.claimName")
            directory = self._root / "claims" / self._namespace / claim
            return {"source": str(directory), "readOnly": bool(source.get("readOnly"))}
        return {"source": "", "readOnly": False}

    def _config_map(self, source: Mapping[str, Any], path: str) -> str:
        name = source.get("name", "")
        _check_name(name, f"{path}.name")
        if source.get("items"):
            raise refuse(f"{path}.items", "a ConfigMap is mounted as a whole")
        directory = self._root / "configmaps" / self._namespace / name
        if not directory.is_dir() and not source.get("optional"):
            raise refuse(f"{path}.name", f"there is no ConfigMap {name}: it would be the directory {directory}")
        return str(directory)

    def _mount(self, mount: Mapping[str, Any], path: str, volumes: Mapping[str, Any]) -> dict[str, Any]:
        self._note(review(mount, MOUNT, path))
        name = mount["name"]
        if name not in volumes:
            raise refuse(f"{path}.name", f"the pod has no volume {name}")
        target = os.path.normpath(mount["mountPath"])
        if not target.startswith("/") or target.strip("/") == "":
            raise refuse(f"{path}.mountPath", f'"{mount["mountPath"]}" is not an absolute path below /')
        inner = mount.get("subPath") or ""
        if inner.startswith("/") or ".." in inner.split("/"):
            raise refuse(f"{path}.subPath", f'"{inner}" leads out of the volume')
        volume = volumes[name]
        return {
            "volume": name,
            "source": volume["source"],
            "subPath": inner,
            "target": target,
            "readOnly": bool(mount.get("readOnly")) or volume["readOnly"],
        }


def _each(mapping: Mapping[str, Any], name: str) -> Iterable[tuple[int, Any]]:
    return enumerate(mapping.get(name) or [])


def _value(variable: Mapping[str, Any], path: str) -> str | dict[str, str]:
    sources = {kind: source for kind, source in (variable.get("valueFrom") or {}).items() if source is not None}
    if not sources:
        return str(variable.get("value") or "")
    kind = next(iter(sources))
    field = sources[kind].get("fieldPath", "") if kind == "fieldRef" else ""
    if field not in VALUE_FROM:
        raise refuse(f"{path}.valueFrom.{kind}", f"of sources, it knows only fieldRef to {', '.join(VALUE_FROM)}")
    return {"field": field}


def _quantity(value: str | float | None, path: str) -> Decimal | None:
    """The value of a limit, of which the schema has checked the form."""
    if value is None:
        return None
    quantity = quantities.value(value)
    if quantity == 0:
        raise refuse(path, f'"{value}" is not a quantity above 0, such as 500m, 2, 128Mi or 1.5G')
    return quantity


def _check_name(text: str, path: str) -> None:
    if _NAME.fullmatch(text) is None:
        raise refuse(path, f'"{text}" is not a name of lower-case letters, digits, hyphens and dots')
