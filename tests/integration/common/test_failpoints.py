"""Deliberate failures: each happens as often as asked over all processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_core.common import failpoints

PROGRAM = (
    "from pipeline_core.common import failpoints; failpoints.reach(failpoints.Point.STAGE_CLAIMED, 'gates', 'train')"
)


def reach(directory: Path, fault: str) -> int:
    """The exit code of a process that reaches one point."""
    environment = {**os.environ, "PIPELINE_FAILPOINT": fault, "PIPELINE_FAILPOINT_DIR": str(directory)}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=False, capture_output=True).returncode


def test_a_fault_happens_so_many_times_over_all_processes(tmp_path: Path) -> None:
    codes = [reach(tmp_path, "stage.claimed@gates:exit:2") for _ in range(4)]
    assert codes == [failpoints.EXIT_CODE, failpoints.EXIT_CODE, 0, 0]


@pytest.mark.parametrize("fault", ["stage.claimed@bind:exit", "stage.claimed@gates@other:exit", "stage.finished:exit"])
def test_elsewhere_nothing_happens(tmp_path: Path, fault: str) -> None:
    assert reach(tmp_path, fault) == 0
