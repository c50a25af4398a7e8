"""Logs through everything that may happen to pods, nodes, connections and the archive."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.clusters.base import LaunchRequest, LogQuery, StillEnding
from pipeline_core.clusters.kubernetes.api import KubernetesApi
from pipeline_core.clusters.kubernetes.archive import Archive
from pipeline_core.clusters.kubernetes.archiving import LogArchiver
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
from pipeline_core.clusters.kubernetes.podlogs import GAP
from pipeline_core.states import ReplicaState
from tests.builders import container, launch_request, role
from tests.integration.clusters.support import seen
from tests.integration.clusters.test_cluster_conformance import texts
from tests.kubernetes.conftest import make_driver
from tests.kubernetes.kubelet import Kubelet, running, terminated
from tests.kubernetes.nodelogs import NodeLogs, serving_logs
from tests.waiting import wait_for

POD = "job-worker-0-0-0"


@pytest.fixture
def node(api: KubernetesApi, tmp_path: Path) -> Iterator[NodeLogs]:
    with serving_logs(api, tmp_path) as logs:
        yield logs


@pytest.fixture
def kubelet(api: KubernetesApi, namespace: str, node: NodeLogs) -> Kubelet:
    return Kubelet(api, namespace, node.name)


@pytest.fixture
def make(namespace: str) -> Any:
    def make_unit(*containers: dict[str, Any], attempt: int = 0, **spec: Any) -> LaunchRequest:
        pod = role("worker", *(containers or (container("true"),)), **spec)
        made = launch_request("job", pod, attempt=attempt)
        return LaunchRequest(made.job_id, namespace, made.user_id, made.taskset, attempt)

    return make_unit


@pytest.fixture
def archiver(api: KubernetesApi, tmp_path: Path, namespace: str) -> LogArchiver:
    """The watcher's, of the same archive as the driver's."""
    return LogArchiver(api, Archive(str(tmp_path / "archive")), [namespace], threading.Event())


@pytest.fixture
def launched(driver: KubernetesCluster, kubelet: Kubelet, make: Any) -> None:
    """A job of one running replica."""
    driver.launch(make())
    kubelet.run(POD)


def once_gone(driver: KubernetesCluster) -> list[str]:
    wait_for(lambda: driver.delete("job"))
    return texts(driver, "job")


@pytest.mark.usefixtures("launched")
def test_a_followed_log_is_neither_torn_nor_repeated(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs
) -> None:
    node.write(POD, "00Z one", "00.5Z two", "00.5Z three")
    followed = (line.text for line in driver.logs("job", LogQuery(follow=True)) if line)
    assert [next(followed) for _ in range(3)] == ["one", "two", "three"]
    node.write(POD, "00.5Z four", "00.51Z five", "01Z six")
    node.cut = len(node.now[POD, "main"]) - len("x\n")
    assert [next(followed) for _ in range(2)] == ["four", "five"]
    node.cut = None
    node.write(POD, "01Z seven")
    kubelet.finish(POD)
    assert list(followed) == ["six", "seven"]


@pytest.mark.usefixtures("launched")
def test_a_tail_that_is_followed_continues_from_there(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs
) -> None:
    node.write(POD, "00.1Z one", "00.2Z two", "00.3Z three")
    followed = (line.text for line in driver.logs("job", LogQuery(follow=True, tail=1)) if line)
    assert next(followed) == "three"
    node.write(POD, "00.4Z four")
    kubelet.finish(POD)
    assert list(followed) == ["four"]


@pytest.mark.usefixtures("launched")
def test_a_pod_that_somebody_deletes_has_its_log_up_to_the_last_round(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs, archiver: LogArchiver
) -> None:
    node.write(POD, "00Z one", "01Z two")
    archiver.round()
    node.write(POD, "01Z three")
    archiver.round()
    archiver.round()
    node.write(POD, "02Z lost")
    kubelet.remove(POD)
    assert texts(driver, "job") == ["one", "two", "three"]
    assert seen(driver, "job").replicas[0].reason == "PodDeleted"
    assert texts(driver, "job", LogQuery(tail=1)) == ["three"]
    assert once_gone(driver) == ["one", "two", "three"]


@pytest.mark.usefixtures("launched")
def test_a_pod_that_is_being_deleted_has_its_log_up_to_then(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs
) -> None:
    node.write(POD, "00Z one")
    kubelet.remove(POD, grace=30)
    driver.observe("job")
    kubelet.remove(POD)
    assert texts(driver, "job") == ["one"]


@pytest.mark.usefixtures("launched")
def test_lines_that_the_node_has_dropped_are_read_from_the_archive(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs, archiver: LogArchiver
) -> None:
    node.write(POD, "00Z one", "01Z two")
    archiver.round()
    node.turn_over(POD)
    node.write(POD, "02Z three")
    assert texts(driver, "job") == ["one", "two", "three"]
    archiver.round()
    node.turn_over(POD)
    node.write(POD, "03Z four")
    kubelet.finish(POD)
    gap = GAP.decode()
    assert texts(driver, "job") == ["one", "two", gap, "three", "four"]
    assert once_gone(driver) == ["one", "two", gap, "three", gap, "four"], "what came before a new file may be lost"


@pytest.mark.usefixtures("launched")
def test_another_collector_continues_where_the_first_stopped(
    api: KubernetesApi,
    tmp_path: Path,
    namespace: str,
    driver: KubernetesCluster,
    kubelet: Kubelet,
    node: NodeLogs,
    archiver: LogArchiver,
) -> None:
    archive = Archive(str(tmp_path / "archive"))
    node.write(POD, "00Z one", "00Z two")
    archiver.round()
    node.write(POD, "00Z three")
    LogArchiver(api, archive, [namespace], threading.Event()).round()
    kubelet.remove(POD)
    assert texts(driver, "job") == ["one", "two", "three"]
    assert [len(files) for files in archive.runs("job").values()] == [2]


def test_every_run_of_a_container_is_kept(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs, make: Any, archiver: LogArchiver
) -> None:
    driver.launch(make(restartPolicy="OnFailure"))
    kubelet.run(POD)
    node.write(POD, "00Z one", "01Z two")
    archiver.round()
    node.write(POD, "02Z three")
    node.restart(POD)
    node.write(POD, "03Z four")
    kubelet.report(POD, "Running", {"main": running()}, restarts=1, last=terminated(1))
    driver.observe("job")
    node.restart(POD)
    node.write(POD, "05Z five")
    kubelet.report(POD, "Succeeded", {"main": terminated(0)}, restarts=2, last=terminated(1))
    expected = ["one", "two", "three", "four", "five"]
    assert texts(driver, "job") == expected
    assert once_gone(driver) == expected


def test_containers_and_init_containers_have_logs_of_their_own(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs, make: Any
) -> None:
    driver.launch(make(container("true"), container("true", "side"), initContainers=[container("true", "prepare")]))
    node.write(POD, "00Z prepared", container="prepare")
    node.write(POD, "01Z one", "03Z three")
    node.write(POD, "02Z two", container="side")
    kubelet.report(
        POD, "Running", {"main": running(), "side": running()}, init={"prepare": terminated(0)}
    )  # fmt: skip

    def lines() -> list[tuple[str, str]]:
        return [(line.source, line.text) for line in driver.logs("job", LogQuery()) if line]

    expected = [
        ("worker-0/prepare", "prepared"),
        ("worker-0/main", "one"),
        ("worker-0/side", "two"),
        ("worker-0/main", "three"),
    ]
    assert lines() == expected
    kubelet.report(
        POD, "Failed", {"main": terminated(1), "side": terminated(0)}, init={"prepare": terminated(0)}
    )  # fmt: skip
    once_gone(driver)
    assert lines() == expected


@pytest.mark.usefixtures("launched")
def test_an_unavailable_archive_delays_the_pods_deletion_and_not_the_next_attempt(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs, make: Any, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    archive.write_text("not a directory")
    node.write(POD, "00Z one")
    kubelet.finish(POD, 1)

    def launches() -> bool:
        try:
            return bool(driver.launch(make(attempt=1)))
        except StillEnding:
            return False

    wait_for(launches)
    assert kubelet.names() == [POD, "job-worker-1-0-0"]
    kubelet.finish("job-worker-1-0-0")
    assert driver.delete("job") is False
    archive.unlink()
    once_gone(driver)
    assert kubelet.names() == []
    assert texts(driver, "job", LogQuery(attempt=0)) == ["one"]


@pytest.mark.usefixtures("launched")
def test_a_log_that_cannot_be_read_is_waited_for(
    api: KubernetesApi, tmp_path: Path, namespace: str, kubelet: Kubelet, node: NodeLogs
) -> None:
    patient = make_driver(api, tmp_path, namespace, wait=60.0)
    node.write(POD, "00Z one")
    node.broken = True
    kubelet.finish(POD)
    asked = node.asked
    wait_for(lambda: patient.delete("job") or node.asked > asked + 5)
    assert kubelet.names() == [POD]
    node.broken = False
    assert once_gone(patient) == ["one"]


@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize("missing", ["e\n", "three\n", "2026-03-01T12:00:02Z three\n", "2026-03-01T12:00:00Z one\n"])
def test_a_log_that_ends_too_early_is_not_stored_as_whole(
    api: KubernetesApi, tmp_path: Path, namespace: str, kubelet: Kubelet, node: NodeLogs, missing: str
) -> None:
    patient = make_driver(api, tmp_path, namespace, wait=60.0)
    node.write(POD, "00Z one", "01Z two", "02Z three")
    node.cut = max(len(node.now[POD, "main"]) - len(missing), len("2026-03-01T12:00:02Z three\n"))
    kubelet.finish(POD)
    asked = node.asked
    wait_for(lambda: patient.delete("job") or node.asked > asked + 5)
    assert kubelet.names() == [POD]
    node.cut = None
    assert once_gone(patient) == ["one", "two", "three"]


@pytest.mark.usefixtures("launched")
def test_a_pod_is_deleted_without_a_log_that_cannot_be_read(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs, archiver: LogArchiver
) -> None:
    node.write(POD, "00Z one")
    archiver.round()
    node.broken = True
    kubelet.finish(POD)
    assert once_gone(driver) == ["one"], "what was collected before is there"


@pytest.mark.parametrize(
    ("policy", "message", "expected"),
    [
        ("File", "", "one\ntwo"),
        ("File", "its own words", "its own words"),
        ("FallbackToLogsOnError", "", ""),
        ("FallbackToLogsOnError", "\n" * 79, "one\ntwo"),
    ],
)
def test_the_end_of_the_log_says_why_a_container_failed_where_its_message_does_not(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs, make: Any, policy: str, message: str, expected: str
) -> None:
    driver.launch(make(container("true", terminationMessagePolicy=policy)))
    node.write(POD, "00Z one", "01Z two")
    kubelet.finish(POD, 1, message=message)
    (replica,) = seen(driver, "job").replicas
    assert (replica.state, replica.diagnostics) == (ReplicaState.FAILED, expected)


@pytest.mark.usefixtures("launched")
def test_pruned_logs_are_removed_and_the_job_stays(
    driver: KubernetesCluster, kubelet: Kubelet, node: NodeLogs, tmp_path: Path
) -> None:
    node.write(POD, "00Z one")
    kubelet.finish(POD)
    assert once_gone(driver) == ["one"]
    driver.prune_logs(["job", "unknown", "../archive"])
    driver.prune_logs(["job"])
    assert texts(driver, "job") == []
    assert list((tmp_path / "archive").iterdir()) == []
    assert seen(driver, "job").replicas[0].state is ReplicaState.SUCCEEDED
    shutil.rmtree(tmp_path / "archive")
    driver.prune_logs(["job"])


@pytest.mark.usefixtures("launched")
def test_watching_collects_logs_for_as_long_as_it_lasts(
    driver: KubernetesCluster, node: NodeLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline_core.clusters.kubernetes.archiving.ROUND_PAUSE_SECONDS", 0.05)
    node.write(POD, "00Z one")
    stop = threading.Event()
    watched = driver.watch(stop)
    assert list(next(watched)) == ["job"]
    archive = Archive(str(tmp_path / "archive"))
    wait_for(lambda: archive.runs("job"))
    stop.set()
    list(watched)
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("logs")])
