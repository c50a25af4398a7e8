from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.operations.doctor.gathering import disk_of, kept_in, measure
from pipeline_core.settings import Settings


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_a_clock_that_differs_is_measured_to_the_round_trip(ahead: float) -> None:
    clock = measure(lambda: time.time() + ahead)
    assert clock.ahead_seconds == pytest.approx(ahead, abs=1.0)
    assert 0 <= clock.round_trip_seconds < 1


def test_the_same_clock_is_not_ahead() -> None:
    assert measure(time.time).ahead_seconds == 0.0


@pytest.mark.parametrize(
    ("chosen", "path"),
    [
        ({"cluster_driver": "local"}, Path("/data")),
        ({"cluster_driver": "null"}, None),
        ({"cluster_driver": "kubernetes"}, Path("/data")),
        ({"cluster_driver": "kubernetes", "archive_url": "/archive"}, Path("/archive")),
        ({"cluster_driver": "kubernetes", "archive_url": "s3://bucket/logs"}, None),
    ],
)
def test_where_jobs_leave_files_on_this_host(chosen: dict[str, Any], path: Path | None) -> None:
    assert kept_in(Settings(data_dir=Path("/data"), **chosen)) == path


def test_the_disk_of_a_directory_that_is_made_later_is_known(tmp_path: Path) -> None:
    disk = disk_of(tmp_path / "later" / "archive")
    assert (disk.error, disk.path) == ("", tmp_path / "later" / "archive")
    assert 0 < disk.free <= disk.total


def test_a_directory_below_a_file_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert disk_of(tmp_path / "file" / "data").error == f"it cannot be used: {tmp_path / 'file'} is no directory"
