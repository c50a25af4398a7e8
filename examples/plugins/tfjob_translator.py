"""TemplateTranslator: a TFJob (kubeflow.org/v1) becomes a TaskSet.

The fields of a TFJob: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/tensorflow/
"""

from __future__ import annotations

import json
from typing import Any

from kubeflow_jobs import (
    DECIDES,
    Untranslatable,
    container_of,
    hosts_variable,
    replica_specs,
    replicas,
    run_before,
    set_variables,
)
from kubeflow_jobs import role as make_role
from kubeflow_jobs import taskset as make_taskset

# In the order in which TensorFlow's own examples list them; the service starts all roles at once.
REPLICA_TYPES = ("Chief", "Master", "PS", "Worker", "Evaluator")
LEADERS = ("Chief", "Master")
FIELD = "tfReplicaSpecs"
TRAINING_CONTAINER = "tensorflow"
DEFAULT_PORT = 2222

# TF_CONFIG differs between replicas, which share a template; so it is made where the replica runs, from the variables
# that the service sets there. Ports count up over all replicas, so that they differ when all share one address.
HOST_LIST = """\
tf_hosts() { tf_list=; tf_port=$1; IFS=,; for tf_host in $2; do
tf_list="$tf_list,\\"$tf_host:$tf_port\\""; tf_port=$((tf_port + 1)); done; unset IFS; tf_list=${tf_list#,}; }
"""


def translate(packet: dict[str, Any]) -> dict[str, Any]:
    """The TaskSet for the TFJob in `packet["job"]`."""
    job = packet["job"]
    groups = replica_groups(job)
    if not all(has_command(group) for group in groups):
        groups = [single for group in groups for single in singles(group)]
    return make_taskset(packet, [role(group, groups, job) for group in groups])


def replica_groups(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The roles to be: name, TensorFlow's type, index of the first replica, number, whether success here is the job's.

    A TFJob succeeds with its chief. Without one it succeeds with worker 0, which therefore gets a role of its own,
    unless all workers count (successPolicy AllWorkers).
    """
    specs = replica_specs(job, FIELD, REPLICA_TYPES)
    has_leader = any(name in specs for name in LEADERS)
    groups = []
    for name in REPLICA_TYPES:
        count = replicas(specs[name]) if name in specs else 0
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
            if count > 1 and job["spec"].get("successPolicy") != "AllWorkers":
                groups.append({**group, "role": "worker-0", "count": 1})
                group |= {"first": 1, "count": count - 1, "decides": False}
        groups.append(group)
    if not groups:
        raise Untranslatable(f"spec.{FIELD} names no replicas")
    return groups


def has_command(group: dict[str, Any]) -> bool:
    """Whether the training container has a command in front of which TF_CONFIG can be set."""
    containers = ((group["spec"].get("template") or {}).get("spec") or {}).get("containers") or []
    return all(one.get("command") for one in containers if one.get("name") == TRAINING_CONTAINER)


def singles(group: dict[str, Any]) -> list[dict[str, Any]]:
    """The group as one role for each replica, so that each has an environment of its own."""
    if group["count"] == 1:
        return [group]
    if group["decides"]:
        where = f"spec.{FIELD}.{group['type']}.template.spec.containers"
        raise Untranslatable(f"{where}: with successPolicy AllWorkers, {TRAINING_CONTAINER} needs a command")
    name, first = group["type"].lower(), group["first"]
    indexes = range(first, first + group["count"])
    return [{**group, "role": f"{name}-{index}", "first": index, "count": 1} for index in indexes]


def role(group: dict[str, Any], groups: list[dict[str, Any]], job: dict[str, Any]) -> dict[str, Any]:
    path = f"spec.{FIELD}.{group['type']}"
    result = make_role(group["role"], group["count"], group["spec"], job, path)
    if sum(other["count"] for other in groups) > 1:
        container = container_of(result, TRAINING_CONTAINER, path)
        if container.get("command"):
            run_before(container, tf_config_script(group, groups))
        else:
            set_variables(container, {"TF_CONFIG": tf_config(group, groups)})
    if group["decides"]:
        result["eventPolicy"] = DECIDES
    return result


def tf_config(group: dict[str, Any], groups: list[dict[str, Any]]) -> str:
    """TF_CONFIG where each role has one replica: the cluster sets the hosts in it (`$(VARIABLE)`)."""
    cluster: dict[str, list[str]] = {}
    members = [other for other in groups if other["type"] != "Evaluator"]
    for port, other in enumerate(members, start=DEFAULT_PORT):
        cluster.setdefault(other["type"].lower(), []).append(f"$({hosts_variable(other['role'])}):{port}")
    task = {"type": group["type"].lower(), "index": group["first"]}
    return json.dumps({"cluster": cluster, "task": task, "environment": "cloud"}, separators=(",", ":"))


def tf_config_script(group: dict[str, Any], groups: list[dict[str, Any]]) -> str:
    """A script that exports TF_CONFIG."""
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
    return HOST_LIST + "\n".join([*lines, config])
