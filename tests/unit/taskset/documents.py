"""A TaskSet with something in every kind of place, and short ways to its parts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Doc = dict[str, Any]

BASE: Doc = {
    "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
    "kind": "TaskSet",
    "metadata": {"name": "j0", "labels": {"owner": "u1"}},
    "spec": {
        "retryPolicy": {"retry": True},
        "count": 1,
        "roles": [
            {
                "name": "worker",
                "replicas": 2,
                "eventPolicy": [{"event": "RoleFailed", "action": "NoAction"}],
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "main",
                                "image": "busybox",
                                "command": ["sh", "-c", "run"],
                                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                            }
                        ],
                        "initContainers": [{"name": "init", "image": "busybox"}],
                        "tolerations": [{"key": "gpu"}],
                        "volumes": [{"name": "data", "emptyDir": {}}],
                    }
                },
            }
        ],
    },
}


def variant(edit: Callable[[Doc], Any], base: Doc = BASE) -> Doc:
    """A copy of `base` that `edit` has altered."""
    document = copy.deepcopy(base)
    edit(document)
    return document


def template(document: Doc) -> Doc:
    return document["spec"]["roles"][0]["template"]


def pod(document: Doc) -> Doc:
    return template(document)["spec"]


def containers(document: Doc) -> list[Doc]:
    return pod(document)["containers"]


def main(document: Doc) -> Doc:
    return next(container for container in containers(document) if container["name"] == "main")


words = st.sampled_from(["a", "b", "c", "d"])
env = st.lists(words, unique=True, max_size=3).map(
    lambda names: [{"name": f"n-{name}", "value": name} for name in names]
)


@st.composite
def additions(draw: st.DrawFn, base: Doc = BASE, tag: str = "") -> Doc:
    """An answer that only adds to `base`, in every kind of place."""
    answer = copy.deepcopy(base)

    def insert(elements: list[Any], element: Any) -> None:
        elements.insert(draw(st.integers(0, len(elements))), element)

    for key, value in draw(st.dictionaries(words, words, max_size=3)).items():
        answer["metadata"]["labels"][f"{tag}{key}"] = value
    for variable in draw(env):
        insert(main(answer)["env"], variable | {"name": tag + variable["name"]})
    for toleration in draw(st.lists(words, max_size=2)):
        insert(pod(answer)["tolerations"], {"key": tag + toleration})
    for name in draw(st.lists(words, unique=True, max_size=2)):
        insert(containers(answer), {"name": f"{tag}side-{name}", "image": "x"})
    for key in draw(st.lists(words, unique=True, max_size=2)):
        answer["spec"][f"{tag}new-{key}"] = draw(st.sampled_from([None, 1, {"x": [1]}, [1, 1]]))
    front = draw(st.lists(words, max_size=2))
    main(answer)["command"] = front + main(answer)["command"]
    return answer


FULL: Doc = {
    "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
    "kind": "TaskSet",
    "metadata": {"name": "j0", "namespace": "ns", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "retryPolicy": {"retry": True, "delay": 1, "maxRetryCount": 1},
        "activeDeadlineSeconds": 60,
        "roles": [
            {
                "name": "worker",
                "replicas": 2,
                "completionPolicy": {"minSucceeded": 1, "maxFailed": 1},
                "eventPolicy": [{"event": "RoleFailed", "action": "NoAction"}],
                "retryPolicy": {"retry": True, "delay": 1, "maxRetryCount": 1},
                "template": {
                    "metadata": {"labels": {"a": "b"}, "annotations": {"pipeline/sidecars": '["log"]'}},
                    "spec": {
                        "restartPolicy": "OnFailure",
                        "activeDeadlineSeconds": 60,
                        "terminationGracePeriodSeconds": 5,
                        "hostname": "h",
                        "hostNetwork": False,
                        "priority": 1,
                        "nodeSelector": {"a": "b"},
                        "tolerations": [{"key": "gpu", "tolerationSeconds": 1}],
                        "imagePullSecrets": [{"name": "s"}],
                        "securityContext": {"runAsUser": 1, "sysctls": [{"name": "a", "value": "b"}]},
                        "initContainers": [
                            {"name": "init", "image": "x", "command": ["true"], "restartPolicy": "Always"}
                        ],
                        "containers": [
                            {
                                "name": "main",
                                "image": "x",
                                "command": ["run"],
                                "args": ["now"],
                                "workingDir": "/tmp",
                                "env": [
                                    {"name": "A", "value": "1"},
                                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                                ],
                                "envFrom": [],
                                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                                "volumeMounts": [
                                    {"name": "data", "mountPath": "/d", "subPath": "s", "readOnly": True},
                                    {"name": "claim", "mountPath": "/c", "mountPropagation": "None"},
                                ],
                                "resources": {"limits": {"cpu": "500m", "memory": 1024}, "requests": {"cpu": 0.5}},
                                "terminationMessagePath": "/dev/log",
                                "terminationMessagePolicy": "File",
                                "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 1},
                            },
                            {"name": "log", "image": "x", "command": ["log"]},
                        ],
                        "volumes": [
                            {"name": "data", "emptyDir": {"medium": "", "sizeLimit": "1Gi"}},
                            {"name": "claim", "persistentVolumeClaim": {"claimName": "c", "readOnly": False}},
                            {"name": "map", "configMap": {"name": "m", "items": [], "optional": True}},
                        ],
                    },
                },
            }
        ],
    },
}
"""A TaskSet with all that the cluster drivers read."""


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in _places(child, (*path, key)))]


_JUNK = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2.0,
        2**31,
        10**40,
        1e300,
        "",
        "x",
        "A=B",
        "/",
        "../..",
        [],
        {},
        [None],
        {"x": "y"},
        {"name": 5},
    ]
)
_SIMILAR: dict[type, list[Any]] = {
    str: ["", "x", "a-b", "/x", "1e999", "{}", None],
    int: [0, 1, 2.0, 2**31 - 1, None],
    bool: [False, True, None],
    float: [0, 1e300, "5Gi"],
    list: [[], None],
    dict: [{}, None],
}


@st.composite
def edited(draw: st.DrawFn) -> Doc:
    """FULL with other values, half of them of a kind that does not belong there, in one or two places."""
    document = copy.deepcopy(FULL)
    for path in draw(st.lists(st.sampled_from(_places(FULL)[1:]), min_size=1, max_size=2)):
        parent: Any = document
        for part in path[:-1]:
            inside = (isinstance(parent, dict) and part in parent) or (
                isinstance(parent, list) and part in range(len(parent))
            )
            parent = parent[part] if inside else None
        if isinstance(parent, dict) or (isinstance(parent, list) and path[-1] in range(len(parent))):
            known = parent.get(path[-1]) if isinstance(parent, dict) else parent[path[-1]]
            parent[path[-1]] = draw(_JUNK | st.sampled_from(_SIMILAR.get(type(known), [known])))
    return document
