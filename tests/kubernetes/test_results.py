"""What pods left behind, by statuses as a node writes them, and by collectors' logs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.clusters.base import ClusterUnavailable, LaunchRequest, ReplicaKey, ReplicaResult, StillEnding
from pipeline_core.clusters.kubernetes import results
from pipeline_core.clusters.kubernetes.api import KubernetesApi
from pipeline_core.clusters.kubernetes.driver import KubernetesCluster
from pipeline_core.states import ReplicaState
from tests.builders import collecting, script_request
from tests.integration.clusters.support import left, seen
from tests.kubernetes.conftest import make_driver
from tests.kubernetes.kubelet import Kubelet, running, stamp, terminated
from tests.waiting import wait_for

POD = "job-worker-0-0-0"
COLLECTOR = "pipeline-collector"


@pytest.fixture
def launched(namespace: str) -> LaunchRequest:
    """A request of a TaskSet that asks for its results."""
    return collecting(replace(script_request("job", "true"), namespace=namespace))


@pytest.fixture
def plain(api: KubernetesApi, tmp_path: Path, namespace: str) -> KubernetesCluster:
    """A driver without a collector."""
    made = make_driver(api, tmp_path, namespace)
    made._collector_image = ""
    return made


class Log:
    """The log of a collector, in place of the node's."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.away = False

    def hand_over(self, data: bytes) -> None:
        texts = [*base64.encodebytes(data).splitlines(), b"end"]
        self.lines = [b"2026-03-01T12:00:00.000000001Z " + text for text in texts]

    def read(self, api: KubernetesApi, namespace: str, pod: str, container: str) -> Iterator[bytes]:
        assert (pod, container) == (POD, COLLECTOR)
        if self.away:
            raise ClusterUnavailable("the node does not answer")
        return iter(self.lines)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    found = Log()
    monkeypatch.setattr(results, "container_log", found.read)
    return found


def ended(seconds_ago: float, code: int = 0, message: str = "") -> dict[str, Any]:
    moment = stamp(datetime.now(UTC) - timedelta(seconds=seconds_ago))
    return terminated(code, message=message, finishedAt=moment)


def finish(kubelet: Kubelet, message: str = "", *, code: int = 0, ago: float = 10) -> None:
    kubelet.report(POD, "Failed" if code else "Succeeded", {"main": ended(ago, code, message), COLLECTOR: ended(ago)})


def test_a_pod_that_is_to_be_collected_from_has_a_collector_which_the_server_takes(
    driver: KubernetesCluster, kubelet: Kubelet, launched: LaunchRequest
) -> None:
    driver.launch(launched)
    pod = kubelet.pod(POD)
    main, collector = pod["spec"]["containers"]
    assert (main["terminationMessagePath"], collector["name"]) == ("/output", COLLECTOR)
    assert [(one["mountPath"], one["subPath"]) for one in main["volumeMounts"]] == [("/metric.json", "main")]
    assert pod["metadata"]["annotations"]["pipeline/sidecars"] == f'["{COLLECTOR}"]'


def test_the_termination_message_is_the_output_and_the_collectors_log_the_metrics(
    driver: KubernetesCluster, kubelet: Kubelet, launched: LaunchRequest, log: Log
) -> None:
    driver.launch(launched)
    kubelet.report(POD, "Running", {"main": running(), COLLECTOR: running()})
    assert left(driver, "job") == ()
    kubelet.report(POD, "Running", {"main": terminated(0, message="a\n"), COLLECTOR: running()})
    assert seen(driver, "job").replicas[0].reason == "SidecarsEnding"
    assert left(driver, "job") == ()
    log.hand_over(b'{"series": []}')
    finish(kubelet, "a\n")
    assert left(driver, "job") == (ReplicaResult("worker", 0, output=b"a\n", metrics=b'{"series": []}'),)
    assert left(driver, "other") == ()
    wait_for(lambda: driver.delete("job"))
    assert left(driver, "job") == ()


def test_a_pod_that_left_nothing_has_no_result(
    driver: KubernetesCluster, kubelet: Kubelet, launched: LaunchRequest, log: Log
) -> None:
    driver.launch(launched)
    log.hand_over(b"")
    finish(kubelet)
    assert left(driver, "job") == ()


def test_a_taskset_that_does_not_ask_is_not_collected_from(
    driver: KubernetesCluster, kubelet: Kubelet, namespace: str
) -> None:
    driver.launch(replace(script_request("job", "true"), namespace=namespace))
    assert kubelet.pod(POD)["spec"]["containers"][0]["terminationMessagePath"] == "/dev/termination-log"
    kubelet.finish(POD, message="a")
    assert left(driver, "job") == ()


def test_without_a_collector_the_output_comes_with_why_there_are_no_metrics(
    plain: KubernetesCluster, kubelet: Kubelet, launched: LaunchRequest
) -> None:
    plain.launch(launched)
    assert len(kubelet.pod(POD)["spec"]["containers"]) == 1
    kubelet.finish(POD, message="a")
    assert left(plain, "job") == (ReplicaResult("worker", 0, output=b"a", metrics_problem=results.NO_COLLECTOR),)


def test_the_message_of_a_container_that_failed_is_not_its_output(
    driver: KubernetesCluster, kubelet: Kubelet, launched: LaunchRequest, log: Log
) -> None:
    driver.launch(launched)
    log.hand_over(b"[]")
    finish(kubelet, "the end of its log", code=3)
    assert left(driver, "job") == (ReplicaResult("worker", 0, metrics=b"[]"),)


def test_an_output_that_the_node_may_have_cut_is_a_problem(
    driver: KubernetesCluster, kubelet: Kubelet, launched: LaunchRequest, log: Log
) -> None:
    driver.launch(launched)
    log.hand_over(b"")
    finish(kubelet, "x" * 4096)
    (found,) = left(driver, "job")
    assert (found.output, "4096 bytes or more" in found.output_problem) == (None, True)
    finish(kubelet, "x" * 4095)
    assert left(driver, "job") == (ReplicaResult("worker", 0, output=b"x" * 4095),)


def test_only_the_latest_attempt_counts_for_its_replica(
    driver: KubernetesCluster, kubelet: Kubelet, launched: LaunchRequest, log: Log
) -> None:
    driver.launch(launched)
    log.hand_over(b"[]")
    finish(kubelet, "a", code=1)
    driver.launch(replace(launched, replicas=(ReplicaKey("worker", 0, 0), ReplicaKey("worker", 0, 1))))
    assert left(driver, "job") == ()
    kubelet.remove("job-worker-0-1-0")
    assert left(driver, "job") == ()


def test_what_a_collector_has_not_printed_yet_is_waited_for(
    driver: KubernetesCluster, kubelet: Kubelet, launched: LaunchRequest, log: Log
) -> None:
    driver.launch(launched)
    finish(kubelet, "a", ago=0)
    with pytest.raises(StillEnding):
        left(driver, "job")
    finish(kubelet, "a", ago=10)
    assert left(driver, "job") == (ReplicaResult("worker", 0, output=b"a", metrics_problem=results.NOT_HANDED_OVER),)


def test_a_node_that_does_not_answer_is_waited_for_as_long_as_for_logs(
    api: KubernetesApi, tmp_path: Path, namespace: str, kubelet: Kubelet, launched: LaunchRequest, log: Log
) -> None:
    patient = make_driver(api, tmp_path, namespace, wait=60.0)
    patient.launch(launched)
    log.away = True
    finish(kubelet, "a")
    with pytest.raises(ClusterUnavailable):
        left(patient, "job")
    finish(kubelet, "a", ago=70)
    (found,) = left(patient, "job")
    assert (found.output, "does not answer" in found.metrics_problem) == (b"a", True)


def test_a_collector_that_is_not_seen_to_end_does_not_keep_its_replica(
    driver: KubernetesCluster, kubelet: Kubelet, launched: LaunchRequest, log: Log
) -> None:
    driver.launch(launched)
    kubelet.report(POD, "Running", {"main": ended(10, message="a"), COLLECTOR: running()})
    long_ago = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    notes = {"pipeline/ending-for": "SidecarsEnding", "pipeline/ending-since": long_ago}
    kubelet.annotate(POD, notes)
    assert seen(driver, "job").replicas[0].state is ReplicaState.SUCCEEDED
    assert left(driver, "job") == (ReplicaResult("worker", 0, output=b"a", metrics_problem=results.NOT_HANDED_OVER),)
    log.hand_over(b"[]")
    assert left(driver, "job") == (ReplicaResult("worker", 0, output=b"a", metrics=b"[]"),)
