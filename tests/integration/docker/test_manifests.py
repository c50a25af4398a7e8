"""What kustomize makes of the manifests, as far as it can be checked without a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from pipeline_core.settings import Settings, variable
from pipeline_up.plan import DRAIN_SECONDS
from tests.manifests import KUSTOMIZE, ROOT, Manifest, a_trial, filled_in, name_of, of_kind, pod_of, rendered

EXAMPLES = ("plugins", "volcano", "volcano/jobs")
UNKNOWN = object()


@pytest.fixture(scope="module")
def base() -> list[Manifest]:
    return rendered(KUSTOMIZE / "base")


@pytest.fixture(scope="module")
def examples() -> list[Manifest]:
    return [one for directory in EXAMPLES for one in rendered(ROOT / "examples" / directory)]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return a_trial(tmp_path_factory.mktemp("trial"))


def what_the_schema_knows(manifest: Manifest) -> Any:
    """The manifest once more, without what its kind does not have. Raises ValueError where a required field lacks."""
    model = manifest["apiVersion"].rpartition("/")[2].capitalize() + manifest["kind"]
    with client.ApiClient() as api:
        return api.sanitize_for_serialization(api.deserialize(json.dumps(manifest), model, "application/json"))


@pytest.mark.parametrize("overlay", ["base", "trial", "examples"])
def test_each_object_has_the_fields_of_its_kind_and_no_others(overlay: str, request: pytest.FixtureRequest) -> None:
    for manifest in request.getfixturevalue(overlay):
        assert what_the_schema_knows(manifest) == manifest, name_of(manifest)


def test_a_field_with_a_typing_error_would_be_found(base: list[Manifest]) -> None:
    (scaler,) = of_kind(base, "HorizontalPodAutoscaler")
    scaler = json.loads(json.dumps(scaler))
    scaler["spec"]["maxReplica"] = 3
    assert what_the_schema_knows(scaler) != scaler
    del scaler["spec"]["maxReplicas"]
    with pytest.raises(ValueError, match=r"max_?[rR]eplicas"):
        what_the_schema_knows(scaler)


def test_the_base_has_all_kinds_of_processes_and_no_namespace(base: list[Manifest]) -> None:
    kinds = {manifest["kind"] for manifest in base}
    assert kinds == {
        "ConfigMap",
        "Deployment",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Secret",
        "Service",
        "ServiceAccount",
    }
    assert all("namespace" not in manifest["metadata"] for manifest in base)


@pytest.mark.parametrize("overlay", ["base", "trial", "examples"])
def test_no_container_can_write_or_become_anything(overlay: str, request: pytest.FixtureRequest) -> None:
    for workload in of_kind(request.getfixturevalue(overlay), "Deployment", "StatefulSet"):
        pod = pod_of(workload)
        assert pod["securityContext"]["runAsNonRoot"] is True, name_of(workload)
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name_of(workload)
        for container in (*pod.get("initContainers", []), *pod["containers"]):
            where = f"{name_of(workload)}, {container['name']}"
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, where
            resources = container["resources"]
            assert {"cpu", "memory"} == resources["requests"].keys() == resources["limits"].keys(), where


def test_only_those_who_speak_to_kubernetes_have_a_token(base: list[Manifest]) -> None:
    with_token = {
        workload["metadata"]["name"].removeprefix("pipeline-")
        for workload in of_kind(base, "Deployment")
        if pod_of(workload)["automountServiceAccountToken"]
    }
    assert with_token == {"api", "stages", "housekeeping", "flows", "watcher"}


def test_every_process_is_probed(base: list[Manifest]) -> None:
    for workload in of_kind(base, "Deployment"):
        (container,) = pod_of(workload)["containers"]
        assert {"startupProbe", "livenessProbe"} <= container.keys(), name_of(workload)
        is_api = workload["metadata"]["name"] == "pipeline-api"
        assert ("readinessProbe" in container) == is_api, name_of(workload)


def test_every_process_of_the_service_finds_a_database_with_its_schema(base: list[Manifest]) -> None:
    for workload in of_kind(base, "Deployment"):
        commands = [container["command"] for container in pod_of(workload).get("initContainers", [])]
        expected = [] if workload["metadata"]["name"] == "pipeline-flower" else [["pipeline", "database", "upgrade"]]
        assert commands == expected, name_of(workload)


def test_workers_have_the_time_to_end_what_they_do(base: list[Manifest]) -> None:
    for workload in of_kind(base, "Deployment"):
        if "worker" in pod_of(workload)["containers"][0]["command"]:
            assert pod_of(workload)["terminationGracePeriodSeconds"] > DRAIN_SECONDS, name_of(workload)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    matched = selector.get("matchLabels", {}).items() <= labels.items()
    return matched and all(
        one["operator"] == "In" and labels.get(one["key"]) in one["values"]
        for one in selector.get("matchExpressions", [])
    )


def test_selectors_find_their_pods_and_no_others(trial: list[Manifest]) -> None:
    workloads = of_kind(trial, "Deployment", "StatefulSet")
    labels = {one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"] for one in workloads}

    def chosen(selector: Mapping[str, Any]) -> set[str]:
        return {name for name, those in labels.items() if selects(selector, those)}

    for manifest in workloads + of_kind(trial, "PodDisruptionBudget"):
        assert chosen(manifest["spec"]["selector"]) == {manifest["metadata"]["name"]}, name_of(manifest)
    for service in of_kind(trial, "Service"):
        assert chosen({"matchLabels": service["spec"]["selector"]}) == {service["metadata"]["name"]}
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(trial, "NetworkPolicy")}
    ours = {name for name in labels if name not in ("pipeline-postgres", "pipeline-redis")}
    assert chosen(policies["pipeline"]["podSelector"]) == ours
    assert chosen(policies["pipeline-servers"]["podSelector"]) == labels.keys() - ours
    (source,) = policies["pipeline-servers"]["ingress"][0]["from"]
    assert chosen(source["podSelector"]) == ours


def test_an_autoscaler_alone_says_how_many_replicas_there_are(base: list[Manifest]) -> None:
    scaled = {
        (one["spec"]["scaleTargetRef"]["kind"], one["spec"]["scaleTargetRef"]["name"])
        for one in of_kind(base, "HorizontalPodAutoscaler")
    }
    without = {
        (one["kind"], one["metadata"]["name"]) for one in of_kind(base, "Deployment") if "replicas" not in one["spec"]
    }
    assert scaled == without == {("Deployment", "pipeline-stages")}


def test_beat_is_one_and_the_watcher_two(base: list[Manifest]) -> None:
    specs = {one["metadata"]["name"]: one["spec"] for one in of_kind(base, "Deployment")}
    assert (specs["pipeline-beat"]["replicas"], specs["pipeline-beat"]["strategy"]) == (1, {"type": "Recreate"})
    assert specs["pipeline-watcher"]["replicas"] == 2


def variables_of(manifests: list[Manifest], workload: Manifest) -> dict[str, str | object]:
    """The environment of its main container; UNKNOWN for what secrets hold."""
    maps = {one["metadata"]["name"]: one.get("data", {}) for one in of_kind(manifests, "ConfigMap")}
    secrets = {one["metadata"]["name"]: one.get("data", {}) for one in of_kind(manifests, "Secret")}
    (container,) = pod_of(workload)["containers"]
    found: dict[str, str | object] = {}
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            found |= maps[source["configMapRef"]["name"]]
        else:
            found |= dict.fromkeys(secrets[source["secretRef"]["name"]], UNKNOWN)
    for variable_ in container.get("env", []):
        reference = variable_.get("valueFrom", {}).get("secretKeyRef")
        if reference:
            assert reference["key"] in secrets[reference["name"]], reference
        found[variable_["name"]] = variable_.get("value", UNKNOWN)
    return found


@pytest.mark.parametrize("overlay", ["base", "trial"])
def test_variables_are_settings_of_the_service(overlay: str, request: pytest.FixtureRequest) -> None:
    manifests = request.getfixturevalue(overlay)
    known = {variable(setting) for setting in fields(Settings)}
    for workload in of_kind(manifests, "Deployment"):
        given = {name for name in variables_of(manifests, workload) if name.startswith("PIPELINE_")}
        assert "PIPELINE_REDIS_URL" in given <= known, name_of(workload)
        assert "PIPELINE_DEVELOPMENT" not in given


@pytest.mark.parametrize("overlay", ["base", "trial"])
def test_secrets_stand_in_secrets_and_flower_is_given_few(overlay: str, request: pytest.FixtureRequest) -> None:
    manifests = request.getfixturevalue(overlay)
    for plain in of_kind(manifests, "ConfigMap"):
        assert not [name for name in plain["data"] if name.endswith(("PASSWORD", "KEY", "DATABASE_URL", "REDIS_URL"))]
    (flower,) = [one for one in manifests if one["metadata"]["name"] == "pipeline-flower"]
    assert variables_of(manifests, flower).keys() <= {"PIPELINE_REDIS_URL", "REDIS_PASSWORD", "FLOWER_PASSWORD"}


def test_the_base_s_secrets_are_empty(base: list[Manifest]) -> None:
    (secret,) = of_kind(base, "Secret")
    assert set(secret["data"].values()) == {""}


def test_an_operator_s_secrets_take_the_place_of_the_empty_ones(tmp_path: Path) -> None:
    filled_in(KUSTOMIZE / "base" / "secrets.env.example", tmp_path, {})
    (tmp_path / "kustomization.yaml").write_text(
        f"""
namespace: elsewhere
resources: [{_relative(KUSTOMIZE / "base", tmp_path)}]
secretGenerator:
  - {{name: pipeline, behavior: replace, envs: [secrets.env]}}
"""
    )
    manifests = rendered(tmp_path)
    (secret,) = of_kind(manifests, "Secret")
    assert "" not in secret["data"].values()
    assert {one["metadata"]["namespace"] for one in manifests} == {"elsewhere"}


def _relative(path: Path, start: Path) -> str:
    return str(Path(*[".."] * (len(start.resolve().parts) - 1), *path.parts[1:]))


def test_the_trial_keeps_its_jobs_apart_from_itself(trial: list[Manifest]) -> None:
    (role_binding,) = of_kind(trial, "RoleBinding")
    assert role_binding["metadata"]["namespace"] == "pipeline-jobs"
    assert role_binding["subjects"] == [{"kind": "ServiceAccount", "name": "pipeline", "namespace": "pipeline"}]
    (settings,) = of_kind(trial, "ConfigMap")
    assert settings["data"]["PIPELINE_NAMESPACES"] == "pipeline-jobs"
    assert {one["metadata"]["namespace"] for one in of_kind(trial, "Deployment", "StatefulSet", "Secret")} == {
        "pipeline"
    }


def test_the_trial_s_redis_keeps_what_waits_in_it(trial: list[Manifest]) -> None:
    (redis,) = [one for one in of_kind(trial, "StatefulSet") if one["metadata"]["name"] == "pipeline-redis"]
    script = pod_of(redis)["containers"][0]["command"][-1]
    for words in ("--appendonly yes", "--maxmemory-policy noeviction", "requirepass"):
        assert words in script


def test_the_archive_is_mounted_by_all_who_read_or_write_it(trial: list[Manifest]) -> None:
    (settings,) = of_kind(trial, "ConfigMap")
    assert settings["data"]["PIPELINE_ARCHIVE_URL"] == "/archive"
    mounted = {
        one["metadata"]["name"].removeprefix("pipeline-")
        for one in of_kind(trial, "Deployment")
        if "/archive" in [mount["mountPath"] for mount in pod_of(one)["containers"][0]["volumeMounts"]]
    }
    assert mounted == {"api", "stages", "housekeeping", "flows", "watcher"}


def test_the_example_plugins_take_along_all_that_they_are_made_of(examples: list[Manifest]) -> None:
    for directory, name in (("plugins", "example-plugins"), ("volcano", "volcano-binder")):
        (code,) = [one for one in of_kind(examples, "ConfigMap") if one["metadata"]["name"].startswith(f"{name}-")]
        files = {path.name: path.read_text() for path in (ROOT / "examples" / directory).glob("*.py")}
        assert code["data"] == files
