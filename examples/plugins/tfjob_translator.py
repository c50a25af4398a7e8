"""TemplateTranslator: a TFJob (kubeflow.org/v1) becomes a TaskSet.

The fields of a TFJob: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/tensorflow/
"""

from __future__ import annotations

import copy
from typing import Any

# In the order in which TensorFlow's own examples list them; the service starts all roles at once.
REPLICA_TYPES = ("Chief", "Master", "PS", "Worker", "Evaluator")
LEADERS = ("Chief", "Master")
TRAINING_CONTAINER = "tensorflow"
PORT_NAME = "tfjob-port"
DEFAULT_PORT = 2222
RESTARTED = ("OnFailure", "Always")

# TF_CONFIG differs between replicas, which share a template; so it is made where the replica runs, from the variables
# that the service sets there. Ports count up over all replicas, so that they differ when all share one address.
HOST_LIST = """\
tf_hosts() { tf_list=; tf_port=$1; IFS=,; for tf_host in $2; do
tf_list="$tf_list,\\"$tf_host:$tf_port\\""; tf_port=$((tf_port + 1)); done; unset IFS; tf_list=${tf_list#,}; }
"""


class Untranslatable(Exception):
    """The TFJob says something that a TaskSet cannot."""


def translate(packet: dict[str, Any]) -> dict[str, Any]:
    """The TaskSet for the TFJob in `packet["job"]`; the service gives it the job's ID as its name."""
    job = packet["job"]
    spec = job.get("spec") or {}
    groups = replica_groups(spec)
    metadata = {
        field: job["metadata"][field]
        for field in ("namespace", "labels", "annotations")
        if job.get("metadata", {}).get(field)
    }
    policy = spec.get("runPolicy") or {}
    taskset_spec: dict[str, Any] = {"roles": [role(group, groups, policy) for group in groups]}
    if policy.get("activeDeadlineSeconds"):
        taskset_spec["activeDeadlineSeconds"] = policy["activeDeadlineSeconds"]
    return {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "metadata": {"name": packet["header"]["jobID"], **metadata},
        "spec": taskset_spec,
    }


def replica_groups(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The roles to be: name, TensorFlow's type, index of the first replica, number, whether success here is the job's.

    A TFJob succeeds with its chief. Without one it succeeds with worker 0, which therefore gets a role of its own,
    unless all workers count (successPolicy AllWorkers).
    """
    specs = spec.get("tfReplicaSpecs") or {}
    if unknown := sorted(specs.keys() - set(REPLICA_TYPES)):
        raise Untranslatable(f"spec.tfReplicaSpecs.{unknown[0]}: known are {', '.join(REPLICA_TYPES)}")
    has_leader = any(name in specs for name in LEADERS)
    groups = []
    for name in REPLICA_TYPES:
        count = specs[name].get("replicas", 1) if name in specs else 0
        if not count:
            continue
        group = {
            "role": name.lower(),
            "type": name,
            "first": 0,
            "count": count,
            "decides": name in LEADERS,
            "spec": specs[name],
        }
        if name == "Worker" and not has_leader:
            group["decides"] = True
            if count > 1 and spec.get("successPolicy") != "AllWorkers":
                groups.append({**group, "role": "worker-0", "count": 1})
                group |= {"first": 1, "count": count - 1, "decides": False}
        groups.append(group)
    if not groups:
        raise Untranslatable("spec.tfReplicaSpecs names no replicas")
    return groups


def role(group: dict[str, Any], groups: list[dict[str, Any]], policy: dict[str, Any]) -> dict[str, Any]:
    template = copy.deepcopy(group["spec"].get("template") or {})
    pod = template.get("spec") or {}
    if not pod.get("containers"):
        raise Untranslatable(f"spec.tfReplicaSpecs.{group['type']}.template.spec.containers: there are none")
    pod.pop("restartPolicy", None)
    if sum(other["count"] for other in groups) > 1:
        container = training_container(pod, group["type"])
        container["command"] = ["sh", "-c", tf_config_script(group, groups), "tfjob", *container["command"]]
    result = {"name": group["role"], "replicas": group["count"], "template": template} | restarts(group, pod, policy)
    if group["decides"]:
        # What still runs then is stopped: cleanPodPolicy `Running` and `All`; `None` has no counterpart.
        result["eventPolicy"] = [{"event": "RoleSucceeded", "action": "TaskSetSucceeded"}]
    return result


def restarts(group: dict[str, Any], pod: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    """What stands in the role, and in `pod`, for restartPolicy and backoffLimit."""
    wanted = group["spec"].get("restartPolicy", "Never")
    if wanted == "ExitCode":
        raise Untranslatable(
            f"spec.tfReplicaSpecs.{group['type']}.restartPolicy: ExitCode has no counterpart; use OnFailure"
        )
    if wanted not in RESTARTED:
        return {}
    if policy.get("backoffLimit") is None:
        pod["restartPolicy"] = "OnFailure"
        return {}
    return {"retryPolicy": {"retry": True, "delay": 0, "maxRetryCount": policy["backoffLimit"]}}


def training_container(pod: dict[str, Any], replica_type: str) -> dict[str, Any]:
    path = f"spec.tfReplicaSpecs.{replica_type}.template.spec.containers"
    for container in pod["containers"]:
        if container.get("name") == TRAINING_CONTAINER:
            if not container.get("command"):
                raise Untranslatable(
                    f"{path}: {TRAINING_CONTAINER} has no command in front of which TF_CONFIG could be set"
                )
            return container
    raise Untranslatable(f"{path}: none is named {TRAINING_CONTAINER}")


def tf_config_script(group: dict[str, Any], groups: list[dict[str, Any]]) -> str:
    """A script that exports TF_CONFIG and becomes the command given to it as arguments."""
    lines, cluster, port = [], {}, DEFAULT_PORT
    for other in groups:
        # An evaluator stands beside the cluster that trains.
        if other["type"] == "Evaluator":
            continue
        lines.append(
            f'tf_hosts {port} "${hosts_variable(other["role"])}"; tf_{other["role"].replace("-", "_")}=$tf_list'
        )
        cluster.setdefault(other["type"].lower(), []).append(f"$tf_{other['role'].replace('-', '_')}")
        port += other["count"]
    members = ",".join(f'\\"{name}\\":[{",".join(hosts)}]' for name, hosts in cluster.items())
    task = f'\\"type\\":\\"{group["type"].lower()}\\",\\"index\\":$((TASKROLE_REPLICA_INDEX + {group["first"]}))'
    config = f'export TF_CONFIG="{{\\"cluster\\":{{{members}}},\\"task\\":{{{task}}},\\"environment\\":\\"cloud\\"}}"'
    return HOST_LIST + "\n".join([*lines, config, 'exec "$@"'])


def hosts_variable(role_name: str) -> str:
    return f"TASKROLE_HOSTS_{role_name.upper().replace('-', '_')}"
