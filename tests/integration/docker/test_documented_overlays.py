"""The kustomizations that docs/kubernetes.md shows, rendered."""

from __future__ import annotations

import os
from pathlib import Path

from tests.manifests import KUSTOMIZE, Manifest, filled_in, of_kind, pod_of, rendered
from tests.pages import Page

PAGE = Page("kubernetes.md")
OWN = "### With servers of your own"


def overlay(directory: Path, text: str) -> list[Manifest]:
    """What the kustomization makes of the base, beside a `secrets.env` that is filled in."""
    filled_in(KUSTOMIZE / "base" / "secrets.env.example", directory, {})
    path = os.path.relpath(KUSTOMIZE, directory.resolve())
    (directory / "kustomization.yaml").write_text(text.replace("../pipeline/docker/kustomize", path))
    return rendered(directory)


def test_an_overlay_for_servers_of_one_s_own(tmp_path: Path) -> None:
    (text,) = PAGE.blocks(OWN, "yaml")
    manifests = overlay(tmp_path, text)
    (settings,) = of_kind(manifests, "ConfigMap")
    assert settings["data"]["PIPELINE_NAMESPACES"] == "vision,speech"
    assert settings["data"]["PIPELINE_ARCHIVE_URL"] == "/archive"
    assert settings["data"]["PIPELINE_CLUSTER_DRIVER"] == "kubernetes"
    (account,) = of_kind(manifests, "ServiceAccount")
    assert account["imagePullSecrets"] == [{"name": "registry"}]
    for workload in of_kind(manifests, "Deployment"):
        pod = pod_of(workload)
        images = {container["image"] for container in (*pod["containers"], *pod.get("initContainers", []))}
        assert images == {"registry.example.com/pipeline-service:0.1.0"}
