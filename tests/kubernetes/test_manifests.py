"""The manifests, held against a real API server: as a dry run, for all kinds that it knows."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest

from pipeline_core.clusters.kubernetes.api import ApiError, KubernetesApi
from tests.manifests import KUSTOMIZE, ROOT, Manifest, a_trial, of_kind, rendered
from tests.waiting import HANG_SECONDS

KNOWN_EVERYWHERE = {"ConfigMap", "Deployment", "NetworkPolicy", "Secret", "Service", "ServiceAccount"}


def known(api: KubernetesApi, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Those whose kind this API server has in their version."""
    kinds: dict[str, set[str]] = {}
    for version in {manifest["apiVersion"] for manifest in manifests}:
        try:
            resources = api.request("GET", f"/apis/{version}" if "/" in version else f"/api/{version}")["resources"]
        except ApiError as error:
            if error.status != 404:
                raise
            resources = []
        kinds[version] = {resource["kind"] for resource in resources}
    return [manifest for manifest in manifests if manifest["kind"] in kinds[manifest["apiVersion"]]]


def dry_run(kubeconfig: str, manifests: list[Manifest], namespace: str | None = None) -> list[str]:
    """What kubectl says of each object, after the API server has checked it."""
    words = [
        "kubectl",
        f"--kubeconfig={kubeconfig}",
        "apply",
        "--dry-run=server",
        "--validate=true",
        "-o",
        "name",
        "-f",
        "-",
    ]
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    done = subprocess.run(
        words + ([f"--namespace={namespace}"] if namespace else []),
        input=body,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module", autouse=True)
def kubectl() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl, which renders and applies the manifests")


def test_the_api_server_takes_the_base_in_whatever_namespace(
    kubeconfig: str, api: KubernetesApi, namespace: str
) -> None:
    manifests = known(api, rendered(KUSTOMIZE / "base"))
    assert {manifest["kind"] for manifest in manifests} >= KNOWN_EVERYWHERE
    assert len(dry_run(kubeconfig, manifests, namespace)) == len(manifests)


def test_the_api_server_takes_the_trial(kubeconfig: str, api: KubernetesApi, tmp_path: Path) -> None:
    manifests = a_trial(tmp_path)
    names = {name: f"{name}-{uuid.uuid4().hex[:8]}" for name in ("pipeline", "pipeline-jobs")}
    for one in of_kind(manifests, "Namespace"):
        one["metadata"]["name"] = names[one["metadata"]["name"]]
        # A dry run makes no namespace that later objects could be in.
        api.request("POST", "/api/v1/namespaces", body=one)
    for one in manifests:
        if "namespace" in one["metadata"]:
            one["metadata"]["namespace"] = names[one["metadata"]["namespace"]]
    found = known(api, manifests)
    assert {one["kind"] for one in found} >= KNOWN_EVERYWHERE | {"StatefulSet", "Role", "RoleBinding"}
    assert len(dry_run(kubeconfig, found)) == len(found)


@pytest.mark.parametrize("directory", ["plugins", "volcano", "volcano/jobs"])
def test_the_api_server_takes_the_examples(kubeconfig: str, namespace: str, directory: str) -> None:
    manifests = rendered(ROOT / "examples" / directory)
    assert len(dry_run(kubeconfig, manifests, namespace)) == len(manifests)


def test_a_field_that_is_wrong_is_refused(kubeconfig: str, api: KubernetesApi, namespace: str) -> None:
    (deployment,) = [one for one in rendered(KUSTOMIZE / "base") if one["metadata"]["name"] == "pipeline-beat"]
    deployment["spec"]["template"]["spec"]["volumes"] = []
    with pytest.raises(AssertionError, match="volumeMounts"):
        dry_run(kubeconfig, [deployment], namespace)


def test_the_service_has_its_rights_where_jobs_run_and_nowhere_else(api: KubernetesApi, namespace: str) -> None:
    for manifest in rendered(KUSTOMIZE / "jobs"):
        kind = f"{manifest['kind'].lower()}s"
        api.request("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{kind}", body=manifest)

    def may(where: str, verb: str, resource: str) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "system:serviceaccount:pipeline:pipeline",
                "resourceAttributes": {"namespace": where, "verb": verb, "resource": resource},
            },
        }
        answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review)
        return bool(answer["status"]["allowed"])

    assert may(namespace, "create", "pods")
    assert not may(namespace, "get", "secrets")
    assert not may("pipeline", "create", "pods")
