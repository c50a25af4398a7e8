"""How long to wait for logs that cannot be stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeline_core.clusters.base import ClusterUnavailable
from pipeline_core.clusters.kubernetes.archive import ArchiveUnavailable
from pipeline_core.clusters.kubernetes.archiving import Archiving, archiving_after, waited

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
