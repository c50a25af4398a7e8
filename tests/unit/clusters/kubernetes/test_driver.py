"""What pods use, as the resource metrics API tells it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline_core.clusters.base import ClusterUnavailable, ReplicaReport, ReplicaUsage
from pipeline_core.clusters.kubernetes.api import ApiError
from pipeline_core.clusters.kubernetes.driver import usage_of
from pipeline_core.states import ReplicaState


class Metrics:
    """Answers with these items, or with this error."""

    def __init__(self, *items: Any) -> None:
        self.given = items
        self.asked: list[tuple[str, str]] = []

    def items(self, path: str, selector: str) -> Any:
        self.asked.append((path, selector))
        for item in self.given:
            if isinstance(item, Exception):
                raise item
            yield item


def item(name: str, *used: tuple[str, str]) -> dict[str, Any]:
    containers = [
        {"name": f"c{number}", "usage": {"cpu": cpu, "memory": memory}} for number, (cpu, memory) in enumerate(used)
    ]
    return {"metadata": {"name": name}, "containers": containers}


def test_a_pod_uses_what_its_containers_use_together() -> None:
    api: Any = Metrics(item("a", ("250m", "10Mi"), ("1", "1024Ki")), item("b", ("12345678n", "4096")))
    assert usage_of(api, "ns", "j1") == {
        "a": ReplicaUsage(1.25, 11 * 1024 * 1024),
        "b": ReplicaUsage(pytest.approx(0.012345678), 4096),
    }
    assert api.asked == [("/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods", "pipeline/job-id=j1")]


@pytest.mark.parametrize(
    "error", [ApiError(404, "not found"), ApiError(403, "no"), ClusterUnavailable("no metrics server")]
)
def test_a_cluster_that_does_not_tell_is_no_trouble(error: Exception) -> None:
    api: Any = Metrics(error)
    assert usage_of(api, "ns", "j1") == {}


def test_usage_makes_no_two_reports_differ() -> None:
    report = ReplicaReport("worker", 0, ReplicaState.RUNNING)
    assert replace(report, usage=ReplicaUsage(1.0, 1)) == report
