"""The clusters that the conformance suite runs against."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_core.clusters.base import Cluster
from pipeline_core.clusters.local.driver import LocalCluster
from tests.integration.clusters.support import gone, processes_naming
from tests.waiting import wait_for


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cluster"


@pytest.fixture
def local(root: Path) -> Iterator[LocalCluster]:
    """A local cluster of its own. Afterwards all its jobs are deleted, and nothing of them may be left."""
    driver = LocalCluster("here", root, slots=16, grace_seconds=0.5)
    yield driver
    if (root / "jobs").is_dir():
        for job_id in os.listdir(root / "jobs"):
            gone(driver, job_id)
    wait_for(lambda: not processes_naming(str(root)))


@pytest.fixture(params=["local"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each driver that runs jobs for real, by the name of its fixture."""
    driver: Cluster = request.getfixturevalue(request.param)
    return driver
