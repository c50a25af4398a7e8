"""A real API server for the tests below, and with PIPELINE_TEST_KUBE_NODE=1 a node that runs pods.

PIPELINE_TEST_KUBECONFIG names the kubeconfig of a cluster that tests may write to, KUBEBUILDER_ASSETS a directory with
`etcd` and `kube-apiserver`, which are started then. With PIPELINE_TEST_KUBE_IMAGE=1 the node has the service's image:
scripts/test-image sees to that.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline_core.clusters.base import Cluster
from pipeline_core.clusters.kubernetes.api import KubernetesApi, connect
from pipeline_core.clusters.kubernetes.archive import Archive
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
from pipeline_core.clusters.kubernetes.pod_rules import WaitLimits
from tests.kubernetes.apiserver import RunningServer, running_api_server
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.runnable import IMAGE, Runnable
from tests.waiting import wait_for

HAS_NODE = os.environ.get("PIPELINE_TEST_KUBE_NODE") == "1"
HAS_IMAGE = os.environ.get("PIPELINE_TEST_KUBE_IMAGE") == "1"
collect_ignore = [] if HAS_NODE else ["test_conformance.py", "test_node.py"]
if not HAS_IMAGE:
    collect_ignore.append("test_image.py")
LIMITS = WaitLimits(timedelta(seconds=300), timedelta(days=7))


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given, assets = os.environ.get("PIPELINE_TEST_KUBECONFIG"), os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        yield given
    elif assets:
        with running_api_server(Path(assets), tmp_path_factory.mktemp("apiserver")) as made:
            yield str(made)
    else:
        pytest.skip(
            "no Kubernetes: neither PIPELINE_TEST_KUBECONFIG nor KUBEBUILDER_ASSETS (etcd, kube-apiserver) is set"
        )


@pytest.fixture
def api_server(kubeconfig: str) -> Iterator[RunningServer]:
    """The API server itself, to be killed and started again; it runs when the test has ended."""
    path = Path(kubeconfig)
    if not path.with_name("kube-apiserver.pid").exists():
        pytest.skip(f"the cluster of {path} was started by others: its API server cannot be killed")
    server = RunningServer(path)
    yield server
    server.ensure()


@pytest.fixture(scope="session")
def api(kubeconfig: str) -> KubernetesApi:
    return connect(kubeconfig, "")


@pytest.fixture
def namespace(api: KubernetesApi) -> str:
    """A namespace of the test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    if HAS_NODE:
        wait_for(lambda: api.request("GET", accounts)["items"])
    return name


def make_driver(
    api: KubernetesApi, root: Path, namespace: str, limits: WaitLimits = LIMITS, wait: float = 0.0
) -> KubernetesCluster:
    return KubernetesCluster(
        "there",
        api,
        Archive(str(root / "archive")),
        namespaces=[namespace],
        limits=limits,
        grace_seconds=1.0,
        archive_wait=wait,
        collector_image=IMAGE["image"],
    )


@pytest.fixture
def driver(api: KubernetesApi, tmp_path: Path, namespace: str) -> KubernetesCluster:
    return make_driver(api, tmp_path, namespace)


@pytest.fixture
def kubelet(api: KubernetesApi, namespace: str) -> Kubelet:
    """Plays the scheduler and the kubelet by writing what they would."""
    return Kubelet(api, namespace)


@pytest.fixture
def cluster(api: KubernetesApi, tmp_path: Path) -> Iterator[Cluster]:
    """For the conformance suite: pods run on the node, in the namespace `default`, with the one image that it has."""
    runnable = Runnable(make_driver(api, tmp_path, "default", wait=60.0))
    runnable.clean_up()
    yield runnable
    runnable.clean_up()
