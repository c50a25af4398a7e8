"""How long to wait for logs that cannot be stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.kubernetes.archive import Archive, ArchiveUnavailable, RunLog
from pipeline_core.clusters.kubernetes.archiving import Archiving, EndingLogs, archiving_after, store, waited
from tests.unit.clusters.kubernetes.fake_api import FakeApi
from tests.unit.clusters.kubernetes.pods import make, running
from tests.waiting import wait_for

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, UTC)


@pytest.mark.parametrize("age", [59, 61])
def test_logs_are_waited_for_from_the_later_of_the_end_and_the_stop(age: int) -> None:
    late, early = NOW - timedelta(seconds=age), NOW - timedelta(hours=1)
    assert waited(NOW, early, late) == waited(NOW, late, early) == waited(NOW, late, None) == age


@pytest.mark.parametrize(
    ("error", "seconds", "expected"),
    [
        (ClusterUnavailable("no node"), 59, Archiving.UNDER_WAY),
        (ClusterUnavailable("no node"), 61, Archiving.DONE),
        (ArchiveUnavailable("no bucket"), 59, Archiving.UNDER_WAY),
        (ArchiveUnavailable("no bucket"), 61, Archiving.LATE),
        (ArchiveUnavailable("no bucket"), 24 * 3600 + 1, Archiving.DONE),
    ],
)
def test_an_archive_is_waited_for_longer_than_a_node(error: Any, seconds: float, expected: Archiving) -> None:
    assert archiving_after(error, seconds, 60.0) is expected


POD = "j1-worker-0-1-2"
RUN = RunLog(POD, 0, "c0", 0)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(str(tmp_path))


def test_what_is_stored_of_a_container_stays_when_its_node_knows_nothing_of_it_any_more(archive: Archive) -> None:
    archive.add("j1", RUN, 0, [b"2026-03-01T12:00:00Z one", b"2026-03-01T12:00:01Z two"])
    unknown = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    store(FakeApi(), archive, make("Failed", {"state": {"terminated": unknown}}))
    assert archive.has("j1", RUN)
    assert list(archive.lines("j1", RUN)) == [b"2026-03-01T12:00:00Z one", b"2026-03-01T12:00:01Z two"]


def test_a_container_whose_pod_is_being_deleted_is_followed_to_its_end(archive: Archive) -> None:
    api = FakeApi()
    api.logs[POD] = "2026-03-01T12:00:00Z one\n2026-03-01T12:00:01Z two\n"
    ending = EndingLogs(api, archive)
    ending.follow(make("Running", running()))
    assert api.requests == [], "it is not being deleted"
    pod = make("Running", running(), deleted=20)
    ending.follow(pod)
    ending.follow(pod)
    wait_for(lambda: not ending.is_following(pod), "the end of the log")
    assert [line.partition(b" ")[2] for line in archive.lines("j1", RUN)] == [b"one", b"two"]
