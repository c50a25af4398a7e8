"""The manifests for Kubernetes: as they stand in their files, and as kustomize renders them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.waiting import HANG_SECONDS

ROOT = Path(__file__).resolve().parents[1]
KUSTOMIZE = ROOT / "docker" / "kustomize"
Manifest = dict[str, Any]


def documents(*files: Path) -> list[Manifest]:
    """All documents of these files."""
    return [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]


def rendered(directory: Path) -> list[Manifest]:
    """What `kubectl apply -k` would send. Skips where there is no kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl, which renders the manifests")
    done = subprocess.run(
        [kubectl, "kustomize", str(directory)], capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def filled_in(example: Path, directory: Path, values: dict[str, str]) -> None:
    """Write `secrets.env` to the directory: the example with all its variables set, by `values` or to their names."""
    lines = []
    for line in example.read_text().splitlines():
        name = line.removesuffix("=")
        lines.append(line if line.startswith("#") else f"{name}={values.get(name, f'a-{name.lower()}')}")
    (directory / "secrets.env").write_text("\n".join(lines) + "\n")


def a_trial(directory: Path, **values: str) -> list[Manifest]:
    """The trial overlay, rendered from a copy in which the secrets are filled in."""
    copy = directory / "kustomize"
    shutil.copytree(KUSTOMIZE, copy, ignore=shutil.ignore_patterns("secrets.env"))
    service = copy / "trial" / "service"
    filled_in(service / "secrets.env.example", service, values)
    return rendered(copy / "trial")


def of_kind(manifests: Iterable[Manifest], *kinds: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def name_of(manifest: Manifest) -> str:
    """`Deployment pipeline-api`: for messages and the names of tests."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def pod_of(workload: Manifest) -> Any:
    return workload["spec"]["template"]["spec"]
