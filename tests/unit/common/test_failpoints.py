"""Deliberate failures: what is asked for, and that each happens as often as asked over all processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.errors import ConfigurationError

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


def test_what_is_asked_for_is_read_with_its_labels_and_times() -> None:
    first, second = failpoints.parse("stage.claimed@gates@train:exit, hook.answered:sleep=0.5:3")
    assert (first.point, first.labels, first.times) == (Point.STAGE_CLAIMED, {"gates", "train"}, 1)
    assert (second.action, second.times) == ("sleep=0.5", 3)


@pytest.mark.parametrize(
    "text", ["nowhere:exit", "hook.answered", "hook.answered:burn", "hook.answered:sleep=x", "hook.answered:exit:x"]
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="PIPELINE_FAILPOINT"):
        failpoints.parse(text)


def test_nothing_is_planned_unless_asked_for() -> None:
    failpoints.reach(Point.STAGE_CLAIMED, "gates")
