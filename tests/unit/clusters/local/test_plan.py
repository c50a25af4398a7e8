"""The plan that the local cluster makes from a TaskSet."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from pipeline_core.clusters.base import ClusterError, LaunchRequest
from pipeline_core.clusters.local.fields import (
    CONTAINER,
    LIMITS,
    MOUNT,
    POD,
    RESOURCES,
    VALUE_FROM,
    VOLUME,
    Table,
    Treatment,
)
from pipeline_core.clusters.local.plan import make_plan
from pipeline_core.taskset.document import named
from pipeline_core.taskset.schema import TaskSetError, check
from tests.unit.taskset.documents import edited

DOCUMENT = Path(__file__).parents[4] / "docs" / "local-cluster.md"
ROOT = Path("/data/cluster")
SPEC = "spec.roles[0].template.spec"


def plan_of(pod: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    template = {"metadata": {"annotations": annotations or {}}, "spec": pod}
    taskset = {"metadata": {"name": "set"}, "spec": {"roles": [{"name": "worker", "template": template}]}}
    return make_plan(LaunchRequest("job", "ns", "u", taskset), ROOT, slots=1, grace_seconds=3, instance="i")


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "main", "command": ["true"], **fields}


def mounted(volume: dict[str, Any], **mount: Any) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/data", **mount}]
    return {"containers": [container(volumeMounts=mounts)], "volumes": [{"name": "v", **volume}]}


@pytest.mark.parametrize(
    ("pod", "path", "words"),
    [
        ({"containers": [container(command=[])]}, f"{SPEC}.containers[0].command", "images are not used"),
        ({"containers": [container(name="../x")]}, f"{SPEC}.containers[0].name", "not a name"),
        ({"containers": [container(workingDir="here")]}, f"{SPEC}.containers[0].workingDir", "absolute"),
        ({"containers": [container()], "restartPolicy": "Always"}, f"{SPEC}.restartPolicy", "OnFailure"),
        ({"containers": [container()], "hostAliases": [{"ip": "1.2.3.4"}]}, f"{SPEC}.hostAliases", "hosts"),
        (
            {"containers": [container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}])]},
            f"{SPEC}.containers[0].env[0].valueFrom.secretKeyRef",
            "fieldRef",
        ),
        (
            {"containers": [container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}])]},
            f"{SPEC}.containers[0].env[0].valueFrom.fieldRef",
            "metadata.name",
        ),
        (mounted({"secret": {"secretName": "s"}}), f"{SPEC}.volumes[0].secret", "emptyDir"),
        (mounted({"hostPath": {"path": "/"}}), f"{SPEC}.volumes[0].hostPath", "emptyDir"),
        (mounted({"nfs": {"server": "s", "path": "/"}}), f"{SPEC}.volumes[0].nfs", "emptyDir"),
        (
            mounted({"persistentVolumeClaim": {"claimName": "../../etc"}}),
            f"{SPEC}.volumes[0].persistentVolumeClaim.claimName",
            "not a name",
        ),
        (mounted({"configMap": {"name": "missing"}}), f"{SPEC}.volumes[0].configMap.name", "no ConfigMap missing"),
        (mounted({"emptyDir": {}}, mountPath="/"), f"{SPEC}.containers[0].volumeMounts[0].mountPath", "below /"),
        (mounted({"emptyDir": {}}, mountPath="/a/.."), f"{SPEC}.containers[0].volumeMounts[0].mountPath", "below /"),
        (mounted({"emptyDir": {}}, subPath="a/../../b"), f"{SPEC}.containers[0].volumeMounts[0].subPath", "leads out"),
        (mounted({"emptyDir": {}}, name="other"), f"{SPEC}.containers[0].volumeMounts[0].name", "no volume other"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_where_it_stands(pod: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(ClusterError) as caught:
        plan_of(pod)
    ((found, (text,)),) = caught.value.errors.items()
    assert found == path
    assert words in text
    assert path in caught.value.message


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"memory": "128Mi"}, {"memory": 128 << 20}),
        ({"memory": "1.5G"}, {"memory": 1_500_000_000}),
        ({"memory": 4096}, {"memory": 4096}),
        ({"memory": "100m"}, {"memory": 1}),
        ({"cpu": "500m"}, {"cpu": 50_000}),
        ({"cpu": 2}, {"cpu": 200_000}),
        ({"cpu": "0.0001"}, {"cpu": 1_000}),
        ({"cpu": "1", "memory": "1e6"}, {"cpu": 100_000, "memory": 1_000_000}),
        ({"cpu": "1e999", "memory": "1e999"}, {"cpu": 2**44 - 1, "memory": 2**63 - 1}),
        ({"nvidia.com/gpu": 1}, {}),
        ({}, {}),
    ],
)
def test_limits_are_bytes_of_memory_and_microseconds_of_cpu(limits: dict[str, Any], expected: dict[str, int]) -> None:
    plan = plan_of({"containers": [container(resources={"limits": limits})]})
    assert plan["roles"]["worker"]["containers"][0]["limits"] == expected


@pytest.mark.parametrize("limits", [{"memory": "0"}, {"cpu": 0}])
def test_a_limit_of_nothing_is_refused(limits: dict[str, Any]) -> None:
    (name,) = limits
    with pytest.raises(ClusterError, match=rf"limits\.{name}.*not a quantity above 0"):
        plan_of({"containers": [container(resources={"limits": limits})]})


def test_what_resources_cannot_limit_is_noted() -> None:
    resources = {"requests": {"cpu": 1}, "limits": {"nvidia.com/gpu": 1, "ephemeral-storage": "1G"}}
    path = f"{SPEC}.containers[0].resources"
    assert [
        note.partition(" has")[0] for note in plan_of({"containers": [container(resources=resources)]})["notes"]
    ] == [
        f"{path}.requests",
        f"{path}.limits.nvidia.com/gpu",
        f"{path}.limits.ephemeral-storage",
    ]


def test_a_job_that_never_runs_all_at_a_time_has_a_note() -> None:
    roles = [{"name": name, "replicas": 2, "template": {"spec": {"containers": [container()]}}} for name in "ab"]
    taskset = {"metadata": {"name": "set"}, "spec": {"roles": roles}}

    def notes(slots: int) -> list[str]:
        made = make_plan(LaunchRequest("job", "ns", "u", taskset), ROOT, slots=slots, grace_seconds=3, instance="i")
        return list(made["notes"])

    (note,) = notes(3)
    assert "of 4 replicas, 3 run at a time (PIPELINE_LOCAL_SLOTS)" in note
    assert notes(4) == notes(0) == []


@pytest.mark.parametrize(
    ("annotation", "sidecars"), [('["log", "gone"]', ["log"]), ('["main", "log"]', []), ("[]", [])]
)
def test_sidecars_are_those_of_the_annotation_unless_it_names_all(annotation: str, sidecars: list[str]) -> None:
    plan = plan_of({"containers": [container(), container(name="log")]}, {"pipeline/sidecars": annotation})
    containers = plan["roles"]["worker"]["containers"]
    assert [one["name"] for one in containers if one["sidecar"]] == sidecars


def test_what_is_null_counts_as_left_out() -> None:
    plan = plan_of(
        {
            "containers": [container(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": None}}])],
            "volumes": [{"name": "v", "hostPath": None, "emptyDir": {}}],
        }
    )
    assert plan["roles"]["worker"]["containers"][0]["env"] == [("A", "1")]


@given(edited())
def test_what_passes_the_check_is_planned_or_refused(document: dict[str, Any]) -> None:
    with suppress(TaskSetError, ClusterError):
        check(document)
        request = LaunchRequest("j1", "ns", "u", named(document, "j1", "ns"))
        plan = make_plan(request, ROOT, slots=1, grace_seconds=3, instance="i")
        assert json.loads(json.dumps(plan))["roles"].keys() == {role["name"] for role in document["spec"]["roles"]}
        for role in plan["roles"].values():
            variables = dict(one for container in role["containers"] for one in container["env"])
            assert not any("=" in name for name in variables)
            timedelta(seconds=plan["deadline"] or role["deadline"] or role["grace"])


def test_a_plain_pod_gets_the_defaults() -> None:
    plan = plan_of({"containers": [container(args=["a"])], "initContainers": None})
    role = plan["roles"]["worker"]
    assert (role["replicas"], role["restart"], role["deadline"], role["grace"]) == (1, "Never", None, 3)
    assert role["containers"][0]["argv"] == ["true", "a"]
    assert plan["notes"] == []


def test_a_pods_own_grace_time_counts_even_when_it_is_none() -> None:
    plan = plan_of({"containers": [container()], "terminationGracePeriodSeconds": 0})
    assert plan["roles"]["worker"]["grace"] == 0


def test_fields_without_effect_are_noted_once() -> None:
    plan = plan_of(
        {"containers": [container(image="busybox", tty=True, novelty=1)], "nodeSelector": {}, "subdomain": "x"}
    )
    assert [note.partition(" has")[0] for note in plan["notes"]] == [
        f"{SPEC}.subdomain",
        f"{SPEC}.containers[0].image",
        f"{SPEC}.containers[0].tty",
        f"{SPEC}.containers[0].novelty",
    ]


@pytest.mark.parametrize(
    ("heading", "table"),
    [
        ("Pod", POD),
        ("Container", CONTAINER),
        ("Resources", RESOURCES),
        ("Limits", LIMITS),
        ("Volume", VOLUME),
        ("Volume mount", MOUNT),
        ("Field of the pod in an environment variable", VALUE_FROM),
    ],
)
def test_the_documentation_has_the_table_of_the_driver(heading: str, table: Table) -> None:
    section = DOCUMENT.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \| ?(.*?) ?\|$", section, re.MULTILINE)
    assert rows == [(name, rule.treatment.value, rule.why) for name, rule in table.items()]


def test_every_rule_that_is_not_plain_gives_its_reason() -> None:
    for table in (POD, CONTAINER, RESOURCES, LIMITS, VOLUME, MOUNT, VALUE_FROM):
        assert all(rule.why for rule in table.values() if rule.treatment is not Treatment.HONOURED)
