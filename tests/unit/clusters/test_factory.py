"""Which driver a process gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline_core.clusters import factory
from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
from pipeline_core.clusters.local.driver import LocalCluster
from pipeline_core.clusters.null import NullCluster
from pipeline_core.errors import ConfigurationError

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: only
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {token: hush}}]
contexts: [{name: only, context: {cluster: here, user: me}}]
"""


@pytest.fixture
def environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_runtime: Callable[[], None]
) -> pytest.MonkeyPatch:
    monkeypatch.setenv("PIPELINE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PIPELINE_CLUSTER_NAME", "mine")
    return monkeypatch


@pytest.mark.parametrize(("driver", "expected"), [("local", LocalCluster), ("null", NullCluster)])
def test_the_driver_is_the_one_that_is_set(environment: pytest.MonkeyPatch, driver: str, expected: type) -> None:
    environment.setenv("PIPELINE_CLUSTER_DRIVER", driver)
    cluster = factory.cluster()
    assert isinstance(cluster, expected)
    assert (cluster.name, cluster.platform) == ("mine", driver)
    assert factory.cluster() is cluster


def test_a_cluster_of_kubernetes_is_that_of_the_kubeconfig(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    environment.setenv("PIPELINE_CLUSTER_DRIVER", "kubernetes")
    environment.setenv("PIPELINE_KUBECONFIG", str(tmp_path / "kubeconfig"))
    cluster = factory.cluster()
    assert isinstance(cluster, KubernetesCluster)
    assert (cluster.name, cluster.platform) == ("mine", "kubernetes")


@pytest.mark.parametrize(
    ("kubeconfig", "context", "message"),
    [
        (None, "", "without PIPELINE_KUBECONFIG"),
        ("no-such-file", "", "PIPELINE_KUBECONFIG.*no-such-file"),
        ("kubeconfig", "other", "other"),
    ],
)
def test_settings_that_name_no_cluster_are_a_configuration_error(
    environment: pytest.MonkeyPatch, tmp_path: Path, kubeconfig: str | None, context: str, message: str
) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    environment.setenv("PIPELINE_CLUSTER_DRIVER", "kubernetes")
    environment.setenv("PIPELINE_KUBECONFIG", str(tmp_path / kubeconfig) if kubeconfig else "")
    environment.setenv("PIPELINE_KUBE_CONTEXT", context)
    environment.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match=message):
        factory.make()


def test_a_cluster_that_cannot_be_made_is_unavailable_until_it_can(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.setenv("PIPELINE_CLUSTER_DRIVER", "kubernetes")
    environment.setenv("PIPELINE_KUBECONFIG", str(tmp_path / "kubeconfig"))
    with pytest.raises(ClusterUnavailable, match=r"PIPELINE_KUBECONFIG.*cannot be read"):
        factory.cluster()
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    assert isinstance(factory.cluster(), KubernetesCluster)
