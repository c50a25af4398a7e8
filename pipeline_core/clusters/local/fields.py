"""Which fields of a pod this driver honours: the tables for the launch, the notes on a job, and the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from pipeline_core.clusters.base import ClusterError


class Treatment(StrEnum):
    """A `noted` field has no effect, and the job's detail says so; a `refused` one makes the launch fail."""

    HONOURED = "honoured"
    NOTED = "noted"
    REFUSED = "refused"


class FieldRule(NamedTuple):
    """The treatment of one field, and the reason."""

    treatment: Treatment
    why: str


Table = Mapping[str, FieldRule]


def _honoured(why: str) -> FieldRule:
    return FieldRule(Treatment.HONOURED, why)


def _noted(why: str) -> FieldRule:
    return FieldRule(Treatment.NOTED, why)


def _refused(why: str) -> FieldRule:
    return FieldRule(Treatment.REFUSED, why)


_SCHEDULING = _noted("there is one machine")
_HOST = _noted("replicas share the machine's own namespace already")
_USER = _noted("processes run as the user of the service")
_NAMES = _noted("replicas reach each other on 127.0.0.1")
_PROBE = _noted("nothing is probed")

POD: Table = {
    "containers": _honoured("run side by side"),
    "initContainers": _honoured("run one after the other before the containers"),
    "restartPolicy": _honoured("Never and OnFailure"),
    "terminationGracePeriodSeconds": _honoured("between SIGTERM and SIGKILL"),
    "activeDeadlineSeconds": _honoured("from the start of the replica"),
    "volumes": _honoured("by kind, see below"),
    "nodeName": _SCHEDULING,
    "nodeSelector": _SCHEDULING,
    "affinity": _SCHEDULING,
    "tolerations": _SCHEDULING,
    "topologySpreadConstraints": _SCHEDULING,
    "schedulerName": _SCHEDULING,
    "priority": _SCHEDULING,
    "priorityClassName": _SCHEDULING,
    "preemptionPolicy": _SCHEDULING,
    "overhead": _SCHEDULING,
    "hostNetwork": _HOST,
    "hostPID": _HOST,
    "hostIPC": _HOST,
    "shareProcessNamespace": _HOST,
    "securityContext": _USER,
    "serviceAccount": _noted("there is no Kubernetes to speak to"),
    "serviceAccountName": _noted("there is no Kubernetes to speak to"),
    "automountServiceAccountToken": _noted("there is no Kubernetes to speak to"),
    "imagePullSecrets": _noted("images are not used"),
    "runtimeClassName": _noted("images are not used"),
    "hostname": _NAMES,
    "subdomain": _NAMES,
    "setHostnameAsFQDN": _NAMES,
    "dnsPolicy": _NAMES,
    "dnsConfig": _NAMES,
    "enableServiceLinks": _NAMES,
    "hostAliases": _refused("the machine's /etc/hosts is not changed"),
    "ephemeralContainers": _refused("they are for debugging a running pod"),
}

CONTAINER: Table = {
    "name": _honoured("names the log"),
    "command": _honoured("must be there, since the image is not used"),
    "args": _honoured("with $(VAR) expanded"),
    "env": _honoured("with $(VAR) expanded; valueFrom: see below"),
    "workingDir": _honoured("must exist; without it each replica has a directory of its own"),
    "volumeMounts": _honoured("in a mount namespace of the container"),
    "restartPolicy": _honoured("Always, of an init container, makes it a sidecar"),
    "image": _noted("processes run on the machine itself"),
    "imagePullPolicy": _noted("images are not used"),
    "resources": _honoured("limits of cpu and memory, see below"),
    "ports": _noted("processes open ports on the machine itself"),
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": _noted("hooks are not called"),
    "securityContext": _USER,
    "terminationMessagePath": _noted("diagnostics are the end of the log"),
    "terminationMessagePolicy": _noted("diagnostics are the end of the log"),
    "stdin": _noted("standard input is empty"),
    "stdinOnce": _noted("standard input is empty"),
    "tty": _noted("there is no terminal"),
    "envFrom": _refused("the local cluster keeps no Secrets and no ConfigMaps to take variables from"),
    "volumeDevices": _refused("there are no block devices"),
}

RESOURCES: Table = {
    "limits": _honoured("cpu and memory, where the service may make control groups; else noted"),
    "requests": _noted("there is one machine"),
    "claims": _refused("there are no devices to claim"),
}

LIMITS: Table = {
    "cpu": _honoured("of every 100 ms, so much CPU time"),
    "memory": _honoured("whoever exceeds it is killed, with reason OOMKilled"),
    "ephemeral-storage": _noted("disk space is not limited"),
}
"""Kinds of limits; any other kind is noted."""

VOLUME: Table = {
    "emptyDir": _honoured("a directory of the replica; medium and sizeLimit have no effect"),
    "configMap": _honoured("the directory configmaps/{namespace}/{name} of the cluster's directory, read-only"),
    "persistentVolumeClaim": _honoured("the directory claims/{namespace}/{claimName} of the cluster's directory"),
}
"""Kinds of volumes; any other kind is refused."""

VALUE_FROM: Table = {
    "metadata.name": _honoured("the pod's name"),
    "metadata.namespace": _honoured("the TaskSet's namespace"),
    "status.podIP": _honoured("127.0.0.1"),
    "status.hostIP": _honoured("127.0.0.1"),
}
"""What `valueFrom.fieldRef` may name; any other source is refused."""

MOUNT: Table = {
    "name": _honoured("the volume"),
    "mountPath": _honoured("absolute, and not / itself"),
    "readOnly": _honoured(""),
    "subPath": _honoured("a relative path inside the volume"),
    "subPathExpr": _refused("use subPath"),
    "mountPropagation": _noted("nothing is propagated"),
    "recursiveReadOnly": _noted("nothing is mounted below"),
}


def refuse(path: str, why: str) -> ClusterError:
    """The error for a field that this driver refuses."""
    text = f"the local cluster cannot run this: {why}"
    return ClusterError(f"{path}: {text}", errors={path: [text]})


def review(fields: Mapping[str, Any], table: Table, path: str) -> Iterator[str]:
    """A note for each field that has no effect. Raises ClusterError for one that is refused.

    Empty fields are passed over; fields that the table does not name are noted.
    """
    for name, value in fields.items():
        rule = table.get(name, _noted("unknown to this driver"))
        if value in (None, "", [], {}):
            continue
        if rule.treatment is Treatment.REFUSED:
            raise refuse(f"{path}.{name}", rule.why)
        if rule.treatment is Treatment.NOTED:
            yield f"{path}.{name} has no effect: {rule.why}"
