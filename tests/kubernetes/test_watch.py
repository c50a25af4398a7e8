"""Hearing of changes from a real API server, through everything that may happen to the connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from pipeline_core.clusters.base import ClusterUnavailable, LaunchRequest
from pipeline_core.clusters.kubernetes import watch
from pipeline_core.clusters.kubernetes.api import KubernetesApi
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
from pipeline_core.clusters.kubernetes.watch import ObservationCache
from tests.builders import script_request
from tests.kubernetes.conftest import LIMITS
from tests.kubernetes.kubelet import Kubelet
from tests.waiting import wait_for

Next = Callable[[], str]


@pytest.fixture
def launch(driver: KubernetesCluster, namespace: str) -> Callable[[str], None]:
    def launch_job(job_id: str) -> None:
        made = script_request(job_id, "true")
        driver.launch(LaunchRequest(job_id, namespace, "u1", made.taskset))

    return launch_job


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def heard_of(names: Iterator[str], job_id: str) -> bool:
    """Whether the job comes up; the watch's signs of life bound the search."""
    return any(name == job_id for name, _ in zip(names, range(50), strict=False))


def singly(watched: Iterator[Collection[str]]) -> Iterator[str]:
    """The names one by one, an empty one for a sign of life."""
    for names in watched:
        yield from names or [""]


def listeners(namespace: str) -> list[Any]:
    return [thread for thread in threading.enumerate() if thread.name == f"watch {namespace}"]


def test_a_watch_starts_with_all_jobs_and_continues_with_changes(
    driver: KubernetesCluster, kubelet: Kubelet, launch: Callable[[str], None], stop: threading.Event
) -> None:
    launch("before")
    launch("stopped")
    wait_for(lambda: driver.delete("stopped"))
    names = singly(driver.watch(stop))
    assert next(names) == "before"
    launch("during")
    assert heard_of(names, "during")
    kubelet.run("before-worker-0-0-0")
    assert heard_of(names, "before")
    kubelet.remove("before-worker-0-0-0")
    assert heard_of(names, "before")
    stop.set()
    list(names)


def test_a_job_that_changes_often_is_yielded_once_until_it_was_observed(
    driver: KubernetesCluster, kubelet: Kubelet, launch: Callable[[str], None], stop: threading.Event, namespace: str
) -> None:
    launch("busy")
    names = singly(driver.watch(stop))
    assert next(names) == "busy"
    for code in (1, 2, 3):
        kubelet.finish("busy-worker-0-0-0", code)
    launch("quiet")
    wait_for(lambda: any("quiet" in listener._changed_jobs._jobs for listener in listeners(namespace)))
    assert [next(names), next(names)] == ["busy", "quiet"]


def test_a_connection_that_is_cut_is_made_again(
    driver: KubernetesCluster, launch: Callable[[str], None], stop: threading.Event, namespace: str
) -> None:
    launch("before")
    names = singly(driver.watch(stop))
    assert next(names) == "before"
    (listener,) = listeners(namespace)
    for number in range(3):
        wait_for(lambda: listener._response is not None)
        listener.cut()
        launch(f"during{number}")
        assert heard_of(names, f"during{number}")


def test_a_server_that_stops_ends_the_watch_and_the_next_one_starts_with_all_jobs(
    api: KubernetesApi,
    driver: KubernetesCluster,
    launch: Callable[[str], None],
    stop: threading.Event,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise ConnectionRefusedError(111, "nobody listens")

    launch("before")
    names = singly(driver.watch(stop))
    assert next(names) == "before"
    (listener,) = listeners(namespace)
    wait_for(lambda: listener._response is not None)
    with monkeypatch.context() as patch:
        patch.setattr(api._client.rest_client.pool_manager, "request", refused)
        listener.cut()
        with pytest.raises(ClusterUnavailable, match="nobody listens"):
            list(names)
    launch("meanwhile")
    names = singly(driver.watch(stop))
    assert {next(names), next(names)} == {"before", "meanwhile"}


def test_a_watch_that_the_server_ends_is_continued(
    driver: KubernetesCluster, launch: Callable[[str], None], stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "WATCH_SECONDS", 2)
    launch("before")
    names = singly(driver.watch(stop))
    assert next(names) == "before"
    assert next(name for name in names if not name) == ""
    launch("during")
    assert heard_of(names, "during")


def test_an_expired_version_makes_the_watch_list_again(
    driver: KubernetesCluster, launch: Callable[[str], None], stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch("before")
    real: Any = watch._Listener._apply
    expired = []

    def take(self: Any, event: Any) -> str:
        if not expired:
            expired.append(event)
            return str(real(self, {"type": "ERROR", "object": {"code": 410, "message": "too old"}}))
        return str(real(self, event))

    monkeypatch.setattr(watch._Listener, "_apply", take)
    names = singly(driver.watch(stop))
    assert next(names) == "before"
    launch("during")
    assert heard_of(names, "during")
    assert expired


def test_a_namespace_that_cannot_be_watched_makes_the_cluster_unavailable(
    api: KubernetesApi, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def request(*_: Any, **__: Any) -> Any:
        raise ClusterUnavailable("gone fishing")

    monkeypatch.setattr(api, "request", request)
    with pytest.raises(ClusterUnavailable, match="gone fishing"):
        list(watch.changes(api, ["default"], ObservationCache(LIMITS), stop, watch.ChangedJobs()))


def test_nothing_is_left_of_a_watch_that_was_stopped(
    driver: KubernetesCluster, launch: Callable[[str], None], stop: threading.Event, namespace: str
) -> None:
    launch("before")
    names = singly(driver.watch(stop))
    assert next(names) == "before"
    stop.set()
    assert "" not in list(names)
    wait_for(lambda: not listeners(namespace))
