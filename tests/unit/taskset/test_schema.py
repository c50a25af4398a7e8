from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pipeline_core.errors import Code
from pipeline_core.taskset.document import SIDECARS, RoleAction, RoleEvent
from pipeline_core.taskset.schema import MAX_BYTES, TaskSetError, check, check_size, conforms, schema
from pipeline_core.taskset.values import MAX_COUNTED, MAX_DEPTH, unusable
from pipeline_core.validation.errors import MAX_ERRORS
from tests.builders import taskset_of

ROLE = "spec.roles[0]"
POD = f"{ROLE}.template.spec"
MAIN = f"{POD}.containers[0]"
ABSENT = object()
MOUNT = {"name": "data", "mountPath": "/x"}
SIDECARS_PATH = f'{ROLE}.template.metadata.annotations["{SIDECARS}"]'


def volume(kind: str, source: Any) -> dict[str, Any]:
    return {"name": "data", kind: source}


WRONG = [
    ("apiVersion", "v1", "apiVersion", "octopus.openi.pcl.cn/v1alpha1"),
    ("kind", "Toy", "kind", "TaskSet"),
    ("kind", ABSENT, "kind", "missing"),
    ("spec", ABSENT, "spec", "missing"),
    ("spec", [], "spec", "an empty list"),
    ("spec.roles", [], "spec.roles", "at least one role"),
    ("spec.roles", "worker", "spec.roles", '"worker"'),
    ("spec.retryPolicy", {"delay": -1}, "spec.retryPolicy.delay", "Seconds"),
    ("spec.retryPolicy", {"retry": 1}, "spec.retryPolicy.retry", "Whether"),
    ("spec.activeDeadlineSeconds", 0, "spec.activeDeadlineSeconds", "1 to 2147483647"),
    ("metadata.namespace", "Not A Namespace", "metadata.namespace", "lower-case"),
    ("metadata.labels", {"a/b": 1}, 'metadata.labels["a/b"]', "put quotes"),
    (f"{ROLE}.name", "Worker", f"{ROLE}.name", "lower-case"),
    (f"{ROLE}.name", "worker\n", f"{ROLE}.name", "lower-case"),
    (f"{ROLE}.name", "w" * 21, f"{ROLE}.name", "At most 20"),
    (f"{ROLE}.name", ABSENT, f"{ROLE}.name", "missing"),
    (f"{ROLE}.replicas", 0, f"{ROLE}.replicas", "1 to 10000"),
    (f"{ROLE}.replicas", 10001, f"{ROLE}.replicas", "1 to 10000"),
    (f"{ROLE}.replicas", True, f"{ROLE}.replicas", "true"),
    (f"{ROLE}.replicas", "2", f"{ROLE}.replicas", '"2"'),
    (f"{ROLE}.completionPolicy.minSucceeded", 3, f"{ROLE}.completionPolicy.minSucceeded", "1 to 2"),
    (f"{ROLE}.completionPolicy.minSucceeded", 0, f"{ROLE}.completionPolicy.minSucceeded", "number of replicas"),
    (f"{ROLE}.completionPolicy.maxFailed", 3, f"{ROLE}.completionPolicy.maxFailed", "1 to 2"),
    (f"{ROLE}.completionPolicy.maxFailed", -1, f"{ROLE}.completionPolicy.maxFailed", "0 is read as 1"),
    (
        f"{ROLE}.eventPolicy",
        [{"event": "RoleDone", "action": "NoAction"}],
        f"{ROLE}.eventPolicy[0].event",
        "RoleFailed",
    ),
    (f"{ROLE}.eventPolicy", [{"event": "RoleFailed", "action": "Retry"}], f"{ROLE}.eventPolicy[0].action", "NoAction"),
    (f"{ROLE}.eventPolicy", [{"event": "RoleFailed"}], f"{ROLE}.eventPolicy[0].action", "missing"),
    (f"{ROLE}.template", ABSENT, f"{ROLE}.template", "missing"),
    (f"{POD}.restartPolicy", "Always", f"{POD}.restartPolicy", "`Always` is refused"),
    (f"{POD}.containers", [], f"{POD}.containers", "at least one container"),
    (f"{POD}.containers", ABSENT, f"{POD}.containers", "missing"),
    (f"{POD}.containers", {"name": "main"}, f"{POD}.containers", "an object"),
    (f"{MAIN}.image", "", f"{MAIN}.image", "not empty"),
    (f"{MAIN}.image", ABSENT, f"{MAIN}.image", "missing"),
    (f"{MAIN}.name", ABSENT, f"{MAIN}.name", "missing"),
    (f"{MAIN}.command", "run", f"{MAIN}.command", "one per word"),
    (f"{MAIN}.command", ["run", 1], f"{MAIN}.command[1]", "is 1"),
    (f"{MAIN}.args", ["run", None], f"{MAIN}.args[1]", "null"),
    (f"{MAIN}.env", {"A": "1"}, f"{MAIN}.env", "A list"),
    (f"{MAIN}.env", [{"value": "1"}], f"{MAIN}.env[0].name", "missing"),
    (f"{MAIN}.env", [{"name": "A", "value": 1}], f"{MAIN}.env[0].value", "put quotes"),
    (f"{MAIN}.ports", [{"containerPort": 70000}], f"{MAIN}.ports[0].containerPort", "1 to 65535"),
    (
        f"{MAIN}.volumeMounts",
        [{"name": "gone", "mountPath": "/x"}],
        f"{MAIN}.volumeMounts[0].name",
        "one of the pod's volumes",
    ),
    (
        f"{MAIN}.volumeMounts",
        [{"name": "data", "mountPath": "/x"}] * 2,
        f"{MAIN}.volumeMounts[1].mountPath",
        "each name once",
    ),
    (f"{POD}.volumes", [{"name": "data"}, {"name": "data"}], f"{POD}.volumes[1].name", "each name once"),
    (f"{POD}.initContainers", [{"name": "main", "image": "x"}], f"{MAIN}.name", "initContainers[0].name"),
    (f"{POD}.nodeSelector", {"gpu": True}, f"{POD}.nodeSelector.gpu", "put quotes"),
    ("spec.activeDeadlineSeconds", 10**30, "spec.activeDeadlineSeconds", "1 to 2147483647"),
    (f"{POD}.activeDeadlineSeconds", "x", f"{POD}.activeDeadlineSeconds", "1 to 2147483647"),
    (f"{POD}.activeDeadlineSeconds", [], f"{POD}.activeDeadlineSeconds", "an empty list"),
    (f"{POD}.activeDeadlineSeconds", 10**40, f"{POD}.activeDeadlineSeconds", "1 to 2147483647"),
    (f"{POD}.terminationGracePeriodSeconds", 2**31, f"{POD}.terminationGracePeriodSeconds", "0 to 2147483647"),
    (f"{POD}.priority", 2**31, f"{POD}.priority", "32 bits"),
    (f"{POD}.securityContext", "x", f"{POD}.securityContext", "PodSecurityContext"),
    (f"{POD}.securityContext", {"runAsUser": 2**63}, f"{POD}.securityContext.runAsUser", "64 bits"),
    (f"{POD}.hostNetwork", "yes", f"{POD}.hostNetwork", "`true` or `false`"),
    (f"{POD}.tolerations", [None], f"{POD}.tolerations[0]", "Toleration"),
    (f"{POD}.affinity", {"nodeAffinity": []}, f"{POD}.affinity.nodeAffinity", "NodeAffinity"),
    (f"{POD}.hostAliases", [{"hostnames": ["x"]}], f"{POD}.hostAliases[0].ip", "missing"),
    (f"{POD}.volumes", [{"name": "a.b"}], f"{POD}.volumes[0].name", "At most 63"),
    (f"{POD}.volumes", [volume("emptyDir", "x")], f"{POD}.volumes[0].emptyDir", "EmptyDirVolumeSource"),
    (f"{POD}.volumes", [volume("emptyDir", {"sizeLimit": "big"})], f"{POD}.volumes[0].emptyDir.sizeLimit", "128Mi"),
    (
        f"{POD}.volumes",
        [volume("persistentVolumeClaim", "x")],
        f"{POD}.volumes[0].persistentVolumeClaim",
        "PersistentVolumeClaimVolumeSource",
    ),
    (
        f"{POD}.volumes",
        [volume("persistentVolumeClaim", {"claimName": 5})],
        f"{POD}.volumes[0].persistentVolumeClaim.claimName",
        "name of a claim",
    ),
    (
        f"{POD}.volumes",
        [volume("configMap", {"name": None})],
        f"{POD}.volumes[0].configMap.name",
        "name of a ConfigMap",
    ),
    (f"{POD}.volumes", [volume("configMap", {})], f"{POD}.volumes[0].configMap.name", "missing"),
    (f"{MAIN}.env", [{"name": "A=B"}], f"{MAIN}.env[0].name", "without `=`"),
    (f"{MAIN}.env", [{"name": ""}], f"{MAIN}.env[0].name", "not empty"),
    (f"{MAIN}.env", [{"name": "A", "valueFrom": "x"}], f"{MAIN}.env[0].valueFrom", "EnvVarSource"),
    (
        f"{MAIN}.env",
        [{"name": "A", "valueFrom": {"fieldRef": "x"}}],
        f"{MAIN}.env[0].valueFrom.fieldRef",
        "ObjectFieldSelector",
    ),
    (
        f"{MAIN}.env",
        [{"name": "A", "valueFrom": {"fieldRef": {}}}],
        f"{MAIN}.env[0].valueFrom.fieldRef.fieldPath",
        "missing; right would be: A text",
    ),
    (f"{MAIN}.volumeMounts", [{**MOUNT, "subPath": 5}], f"{MAIN}.volumeMounts[0].subPath", "A text"),
    (f"{MAIN}.volumeMounts", [{**MOUNT, "readOnly": "yes"}], f"{MAIN}.volumeMounts[0].readOnly", "`true`"),
    (f"{MAIN}.resources", {"limits": {"memory": "many"}}, f"{MAIN}.resources.limits.memory", "128Mi"),
    (f"{MAIN}.resources", {"limits": {"memory": "1 Gi"}}, f"{MAIN}.resources.limits.memory", "128Mi"),
    (f"{MAIN}.resources", {"limits": {"cpu": "-1"}}, f"{MAIN}.resources.limits.cpu", "0 or more"),
    (f"{MAIN}.resources", {"requests": {"cpu": True}}, f"{MAIN}.resources.requests.cpu", "0 or more"),
    (f"{MAIN}.livenessProbe", {"httpGet": {"path": "/"}}, f"{MAIN}.livenessProbe.httpGet.port", "missing"),
    (f"{MAIN}.livenessProbe", {"tcpSocket": {"port": []}}, f"{MAIN}.livenessProbe.tcpSocket.port", "32 bits"),
    (f"{ROLE}.template.metadata", {"annotations": {SIDECARS: "logger"}}, SIDECARS_PATH, "JSON list"),
    (f"{ROLE}.template.metadata", {"annotations": {SIDECARS: "[1]"}}, SIDECARS_PATH, "JSON list"),
]


def change(document: Any, path: str, value: Any) -> None:
    *parents, last = path.replace("[0]", ".0").split(".")
    for part in parents:
        document = document[int(part) if part.isdigit() else part]
    if value is ABSENT:
        del document[last]
    else:
        document[last] = value


@pytest.mark.parametrize(("path", "value", "at", "says"), WRONG)
def test_a_wrong_part_is_refused_with_its_path_and_what_would_be_right(
    taskset: dict[str, Any], path: str, value: Any, at: str, says: str
) -> None:
    change(taskset, path, value)
    with pytest.raises(TaskSetError) as caught:
        check(taskset)
    assert list(caught.value.errors) == [at]
    assert says in caught.value.errors[at][0]
    assert at in caught.value.message
    assert caught.value.code is Code.WRONG_PARAM


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata", ABSENT),
        ("metadata", None),
        ("metadata.creationTimestamp", None),
        ("spec.retryPolicy", None),
        ("spec.somethingNew", {"a": 1}),
        (f"{ROLE}.replicas", 2.0),
        (f"{ROLE}.completionPolicy", {}),
        (f"{ROLE}.completionPolicy.maxFailed", 0),
        (f"{ROLE}.eventPolicy", None),
        (f"{POD}.restartPolicy", "OnFailure"),
        (f"{POD}.restartPolicy", ABSENT),
        (f"{MAIN}.env", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        (f"{MAIN}.resources", {"limits": {"cpu": 1, "nvidia.com/gpu": "1"}}),
        (f"{MAIN}.resources", {"limits": {"cpu": 0.5, "memory": "1.5e3"}, "requests": {"memory": ".5Gi"}}),
        (f"{MAIN}.env", [{"name": "a b", "value": None}, {"name": "0.-", "valueFrom": None}]),
        (f"{MAIN}.livenessProbe", {"httpGet": {"port": "web"}, "periodSeconds": 5}),
        (f"{POD}.volumes", [volume("somethingNew", {"a": 1}), {"name": "b", "emptyDir": None, "hostPath": None}]),
        (f"{POD}.activeDeadlineSeconds", 2**31 - 1),
        (f"{POD}.affinity", None),
        (f"{ROLE}.template.metadata", {"annotations": {SIDECARS: '["main", "other"]'}}),
    ],
)
def test_what_kubernetes_would_run_is_accepted(taskset: dict[str, Any], path: str, value: Any) -> None:
    change(taskset, path, value)
    check(taskset)


def test_roles_may_not_share_a_name(taskset: dict[str, Any]) -> None:
    taskset["spec"]["roles"] *= 2
    with pytest.raises(TaskSetError) as caught:
        check(taskset)
    assert "spec.roles[1].name" in caught.value.errors


def test_of_many_errors_a_hundred_are_listed_and_the_rest_counted(taskset: dict[str, Any]) -> None:
    taskset["spec"]["roles"] = [{"name": "w"}] * 150
    with pytest.raises(TaskSetError, match=r"\(and 149 more\)") as caught:
        check(taskset)
    assert len(caught.value.errors) == MAX_ERRORS + 1
    assert caught.value.errors["."] == ["50 more errors are not listed"]


def test_a_check_ends_when_it_has_found_very_many_errors(taskset: dict[str, Any]) -> None:
    taskset["spec"]["roles"] = [{"name": "w"}] * (MAX_COUNTED + 2)
    with pytest.raises(TaskSetError, match=rf"\(and at least {MAX_COUNTED} more\)") as caught:
        check(taskset)
    assert caught.value.errors["."] == [f"at least {MAX_COUNTED + 1 - MAX_ERRORS} more errors are not listed"]


def test_each_wrong_place_is_named_once(taskset: dict[str, Any]) -> None:
    taskset["spec"]["roles"][0]["name"] = "W" * 30
    with pytest.raises(TaskSetError) as caught:
        check(taskset)
    assert len(caught.value.errors[f"{ROLE}.name"]) == 1


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("junk", "says"),
    [
        (nested(MAX_DEPTH), "levels deep"),
        (nested(100_000), "levels deep"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ({"\0": 1}, "NUL"),
        (b"bytes", "bytes"),
    ],
)
def test_what_cannot_be_stored_is_refused_wherever_it_stands(taskset: dict[str, Any], junk: Any, says: str) -> None:
    taskset["metadata"]["junk"] = junk
    with pytest.raises(TaskSetError, match=says) as caught:
        check(taskset)
    assert next(iter(caught.value.errors)).startswith("metadata.junk")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_any_json_is_refused_without_a_crash(junk: Any) -> None:
    with pytest.raises(TaskSetError):
        check(junk)


BASE = {
    "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
    "kind": "TaskSet",
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "retryPolicy": {"retry": True},
        "roles": [
            {
                "name": "w",
                "completionPolicy": {},
                "eventPolicy": [],
                "template": {
                    "metadata": {"labels": {}},
                    "spec": {
                        "containers": [{"name": "c", "image": "i", "env": [], "volumeMounts": [], "command": ["x"]}],
                        "volumes": [],
                    },
                },
            }
        ],
    },
}


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


PLACES = places(BASE)[1:]


def with_junk(path: tuple[str | int, ...], junk: Any, base: Any = BASE) -> Any:
    document: Any = copy.deepcopy(base)
    parent = document
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = junk
    return document


@given(st.sampled_from(places(BASE)[1:]), JSON)
def test_junk_at_any_place_of_a_taskset_never_crashes_the_check(path: tuple[str | int, ...], junk: Any) -> None:
    with suppress(TaskSetError):
        check(with_junk(path, junk))


RICH = taskset_of(
    {
        "name": "w",
        "replicas": 3,
        "completionPolicy": {"minSucceeded": 2, "maxFailed": 1},
        "eventPolicy": [{"event": "RoleFailed", "action": "TaskSetFailed"}],
        "retryPolicy": {"retry": True, "delay": 1, "maxRetryCount": 2},
        "template": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {
                "activeDeadlineSeconds": 5,
                "hostNetwork": False,
                "nodeSelector": {"disk": "ssd"},
                "securityContext": {"runAsUser": 1000, "sysctls": [{"name": "a", "value": "b"}]},
                "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "command": ["x"],
                        "env": [{"name": "A", "value": "1"}],
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "resources": {"limits": {"cpu": "1500m", "memory": 1024}},
                        "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
                        "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 3},
                    }
                ],
                "volumes": [
                    {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
                    {"name": "w", "configMap": {"defaultMode": 420}},
                ],
            },
        },
    }
)
THOROUGH = Draft202012Validator(schema())
EDGES = st.sampled_from(
    [0, 1, -1, 1.0, 0.5, 2.0, True, 2**31 - 1, 2**31, 2**31 + 0.0, 2**63, 2**64, 10**30, -(10**400), 1e300, -0.0]
) | st.from_regex(
    r"[a-z0-9-]{1,3}\n?|[0-9.]{1,4}(Ki|e3|m|n|K)?\n?|[A-Z_=]{1,3}\n?|.{253,254}|[\u0660-\u0669]", fullmatch=True
)


@given(st.sampled_from(places(RICH)[1:]), JSON | EDGES)
@example(("spec", "roles", 0, "replicas"), 2)
def test_the_quick_check_knows_what_the_thorough_one_accepts(path: tuple[str | int, ...], junk: Any) -> None:
    document = with_junk(path, junk, RICH)
    assume(unusable(document) is None)
    assert conforms(document) == THOROUGH.is_valid(document)


def test_the_schema_is_a_schema_and_says_what_is_right_in_every_part() -> None:
    Draft202012Validator.check_schema(schema())

    def parts(value: Any) -> list[Any]:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        here = [value] if isinstance(value, dict) and ({"type", "enum", "const"} & value.keys()) else []
        return here + [part for child in inner for part in parts(child)]

    assert all(
        isinstance(part.get("description"), str)
        for part in parts(schema())
        if isinstance(part.get("type", ""), str | list)
    )


def test_events_and_actions_are_the_same_in_code_and_schema() -> None:
    policy = schema()["$defs"]["role"]["properties"]["eventPolicy"]["items"]["properties"]
    assert policy["event"]["enum"] == list(RoleEvent)
    assert policy["action"]["enum"] == list(RoleAction)


def test_a_taskset_above_the_limit_is_refused_and_says_whose_it_is(taskset: dict[str, Any]) -> None:
    spare = MAX_BYTES - len(json.dumps({**taskset, "pad": ""}, separators=(",", ":")))
    check_size({**taskset, "pad": "x" * spare})
    with pytest.raises(TaskSetError, match=f"The answer of a.b.c has {MAX_BYTES + 1} bytes"):
        check_size({**taskset, "pad": "x" * (spare + 1)}, "The answer of a.b.c")
    with pytest.raises(TaskSetError):
        check_size({**taskset, "pad": "é" * (spare // 2 + 1)})
