"""What the jobs of Kubeflow's operators have in common, for the translators beside this module."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

RESTARTED = ("OnFailure", "Always")
# What still runs when this role is done is stopped: cleanPodPolicy `Running` and `All`; `None` has no counterpart.
DECIDES = [{"event": "RoleSucceeded", "action": "TaskSetSucceeded"}]


class Untranslatable(Exception):
    """The job says something that a TaskSet cannot."""


def taskset(packet: dict[str, Any], roles: list[dict[str, Any]]) -> dict[str, Any]:
    """The TaskSet of these roles for the job in `packet`; the service gives it the job's ID as its name."""
    job = packet["job"]
    metadata = {
        field: job["metadata"][field]
        for field in ("namespace", "labels", "annotations")
        if job.get("metadata", {}).get(field)
    }
    spec: dict[str, Any] = {"roles": roles}
    if deadline := run_policy(job).get("activeDeadlineSeconds"):
        spec["activeDeadlineSeconds"] = deadline
    return {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "metadata": {"name": packet["header"]["jobID"], **metadata},
        "spec": spec,
    }


def run_policy(job: dict[str, Any]) -> dict[str, Any]:
    return (job.get("spec") or {}).get("runPolicy") or {}


def replica_specs(job: dict[str, Any], field: str, known: Iterable[str]) -> dict[str, Any]:
    """The replica specs in `spec.{field}` by type. As for the operators, the case of a type does not matter."""
    types = {name.lower(): name for name in known}
    specs: dict[str, Any] = {}
    for name, spec in ((job.get("spec") or {}).get(field) or {}).items():
        if name.lower() not in types:
            raise Untranslatable(f"spec.{field}.{name}: known are {', '.join(known)}")
        if types[name.lower()] in specs:
            raise Untranslatable(f"spec.{field}.{name}: {types[name.lower()]} is there twice")
        specs[types[name.lower()]] = spec
    return specs


def replicas(spec: dict[str, Any]) -> int:
    return int(spec.get("replicas", 1))


def role(
    name: str, count: int, spec: dict[str, Any], job: dict[str, Any], path: str, *, restart: str = "Never"
) -> dict[str, Any]:
    """A role of `count` replicas from the replica spec at `path`, with the job's backoffLimit.

    `restart` is the operator's default restartPolicy.
    """
    template = copy.deepcopy(spec.get("template") or {})
    pod = template.get("spec") or {}
    if not pod.get("containers"):
        raise Untranslatable(f"{path}.template.spec.containers: there are none")
    pod.pop("restartPolicy", None)
    result = {"name": name, "replicas": count, "template": template}
    wanted, limit = spec.get("restartPolicy") or restart, run_policy(job).get("backoffLimit")
    if wanted == "ExitCode":
        raise Untranslatable(f"{path}.restartPolicy: ExitCode has no counterpart; use OnFailure")
    if wanted in RESTARTED and limit is None:
        pod["restartPolicy"] = "OnFailure"
    elif wanted in RESTARTED:
        result["retryPolicy"] = {"retry": True, "delay": 0, "maxRetryCount": limit}
    return result


def container_of(role: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    """The role's container of this name."""
    for container in role["template"]["spec"]["containers"]:
        if container.get("name") == name:
            return container
    raise Untranslatable(f"{path}.template.spec.containers: none is named {name}")


def run_before(container: dict[str, Any], script: str) -> None:
    """Let the container run a shell script, which then becomes the container's command. It must have one: in front of an
    image's own entrypoint nothing can be set."""
    container["command"] = ["sh", "-c", f'{script}\nexec "$@"', "kubeflow", *container["command"]]


def set_variables(container: dict[str, Any], variables: dict[str, str]) -> None:
    """Set these in the container, but for those that it sets itself."""
    own = container.get("env") or []
    taken = {variable["name"] for variable in own}
    made = [{"name": name, "value": value} for name, value in variables.items() if name not in taken]
    container["env"] = made + own


def hosts_variable(role_name: str) -> str:
    """Where every container finds the addresses of a role's replicas, separated by commas."""
    return f"TASKROLE_HOSTS_{role_name.upper().replace('-', '_')}"
