"""Deliberate failures: how they are asked for."""

from __future__ import annotations

import pytest

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.errors import ConfigurationError


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
