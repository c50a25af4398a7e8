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
