"""An API server that is overloaded, silent, away or started anew; through a proxy, and by killing a real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline_core.clusters.base import ClusterUnavailable, LaunchRequest
from pipeline_core.clusters.kubernetes import watch
from pipeline_core.clusters.kubernetes.api import KubernetesApi, connect
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
from pipeline_core.states import ReplicaState
from tests.builders import script_request
from tests.integration.clusters.support import seen
from tests.kubernetes.apiserver import RunningServer
from tests.kubernetes.conftest import make_driver
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.proxy import Proxy, proxied
from tests.waiting import HANG_SECONDS, wait_for

POD = "job-worker-0-0-0"


@pytest.fixture
def proxy(kubeconfig: str, tmp_path: Path) -> Iterator[Proxy]:
    with proxied(kubeconfig, tmp_path) as made:
        yield made


@pytest.fixture
def behind(proxy: Proxy, tmp_path: Path, namespace: str) -> KubernetesCluster:
    """The driver, with the proxy between it and its cluster."""
    return make_driver(connect(proxy.kubeconfig, ""), tmp_path, namespace)


@pytest.fixture
def job(namespace: str) -> LaunchRequest:
    made = script_request("job", "true")
    return LaunchRequest("job", namespace, "u1", made.taskset)


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def heard_of(driver: KubernetesCluster, stop: threading.Event) -> tuple[Callable[[str], None], threading.Thread]:
    """Waits until the watch has named a job anew."""
    observed: list[str] = []

    def listen() -> None:
        while not stop.is_set():
            try:
                for names in driver.watch(stop):
                    observed.extend(names)
            except ClusterUnavailable:
                stop.wait(0.1)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()

    def wait(job_id: str) -> None:
        wait_for(lambda: job_id in observed)
        observed.clear()

    return wait, thread


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_request_to_an_overloaded_server_is_retried(
    proxy: Proxy, behind: KubernetesCluster, job: LaunchRequest, status: int
) -> None:
    proxy.answers = [(status, {})] * 2
    assert behind.launch(job).replicas[0].state is ReplicaState.WAITING


def test_a_retry_waits_for_the_retry_after_of_the_server(
    proxy: Proxy, behind: KubernetesCluster, job: LaunchRequest
) -> None:
    proxy.answers = [(429, {"Retry-After": "2"})]
    began = time.monotonic()
    behind.launch(job)
    assert time.monotonic() - began >= 2


def test_a_server_that_asks_for_a_long_pause_is_unavailable(
    proxy: Proxy, behind: KubernetesCluster, job: LaunchRequest
) -> None:
    proxy.always = (429, {"Retry-After": "600"})
    with pytest.raises(ClusterUnavailable, match="the proxy says 429"):
        behind.launch(job)
    assert len(proxy.asked) == 1, "nobody sleeps that long, and nobody asks before"


def test_a_server_that_never_recovers_is_unavailable_and_nothing_is_lost(
    proxy: Proxy, behind: KubernetesCluster, kubelet: Kubelet, job: LaunchRequest
) -> None:
    behind.launch(job)
    kubelet.run(POD)
    for condition in ("always", "cut"):
        proxy.always, proxy.cut = ((503, {}), False) if condition == "always" else (None, True)
        for ask in (lambda: behind.observe("job"), lambda: behind.delete("job"), lambda: behind.launch(job)):
            with pytest.raises(ClusterUnavailable):
                ask()
    proxy.always, proxy.cut = None, False
    assert seen(behind, "job").replicas[0].state is ReplicaState.RUNNING


def test_a_server_that_does_not_answer_is_given_up(
    proxy: Proxy, behind: KubernetesCluster, job: LaunchRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind.launch(job)
    real = KubernetesApi.open

    def impatient(self: KubernetesApi, *request: object, **fields: object) -> object:
        return real(self, *request, **{**fields, "read_seconds": 0.5, "pauses": (0.1,)})  # type: ignore[arg-type]

    monkeypatch.setattr(KubernetesApi, "open", impatient)
    proxy.hangs = True
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable, match="cannot be reached"):
        behind.observe("job")
    assert time.monotonic() - began < HANG_SECONDS
    proxy.hangs = False
    assert behind.observe("job") is not None


def test_a_connection_that_was_dropped_silently_is_renewed(
    proxy: Proxy,
    behind: KubernetesCluster,
    kubelet: Kubelet,
    job: LaunchRequest,
    stop: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "SILENCE_SECONDS", 1.0)
    behind.launch(job)
    wait, _ = heard_of(behind, stop)
    wait("job")
    wait_for(lambda: any("watch=true" in asked for asked in proxy.asked))
    proxy.silent.set()
    kubelet.run(POD)
    proxy.silent = threading.Event()
    wait("job")
    assert behind.cached_observation("job") is not None


def test_a_watch_survives_a_restart_of_its_server(
    api_server: RunningServer,
    api: KubernetesApi,
    driver: KubernetesCluster,
    kubelet: Kubelet,
    job: LaunchRequest,
    stop: threading.Event,
) -> None:
    driver.launch(job)
    wait, thread = heard_of(driver, stop)
    wait("job")
    for number in range(2):
        api_server.kill()
        with pytest.raises(ClusterUnavailable):
            driver.observe("job")
        api_server.start()
        wait_for(lambda: driver.observe("job"))
        kubelet.run(POD) if number == 0 else kubelet.finish(POD)
        wait("job")
    assert seen(driver, "job").replicas[0].state is ReplicaState.SUCCEEDED
    stop.set()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()
