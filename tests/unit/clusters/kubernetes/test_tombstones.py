"""The control ConfigMaps of ended jobs are removed when no launch can come any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pipeline_core.clusters.base import LaunchRequest
from pipeline_core.clusters.kubernetes import objects, tombstones
from tests.unit.clusters.kubernetes.fake_api import FakeApi
from tests.unit.clusters.kubernetes.pods import NOW

PATH = "/api/v1/namespaces/ns/configmaps"
OLD, NEW = NOW - tombstones.KEPT - timedelta(seconds=1), NOW - tombstones.KEPT + timedelta(seconds=1)


def control(attempt: int = 0, cleared: Any = OLD, latest: int | None = None, job_id: str = "job") -> dict[str, Any]:
    made = objects.control_configmap(LaunchRequest(job_id, "ns", "u1", {}, attempt))
    made["metadata"]["labels"][objects.STOPPED] = "true"
    if cleared:
        made["metadata"]["annotations"][objects.CLEARED] = cleared.isoformat()
    if latest is not None:
        made["metadata"]["annotations"][objects.LATEST] = str(latest)
    return made


@pytest.mark.parametrize(
    ("controls", "names"),
    [
        ([control()], ["c-job-0"]),
        ([control(cleared=NEW)], []),
        ([control(cleared=None)], []),
        ([control(latest=1), control(1)], ["c-job-1", "c-job-0"]),
        ([control(latest=1), control(1, cleared=NEW)], []),
        ([control(latest=1)], []),
    ],
)
def test_those_of_a_job_go_together_when_all_are_old_the_first_attempts_last(
    controls: list[dict[str, Any]], names: list[str]
) -> None:
    assert list(tombstones.removable(controls, NOW)) == names


def test_only_old_ones_are_deleted() -> None:
    api = FakeApi()
    live = objects.control_configmap(LaunchRequest("live", "ns", "u1", {}))
    for one in (control(job_id="old"), control(cleared=NEW, job_id="new"), live):
        api.request("POST", PATH, body=one)
    assert tombstones.remove_old(api, "ns", NOW) == 1
    assert api.names("configmaps") == ["c-live-0", "c-new-0"]
