"""Failpoints: how they are configured."""

from __future__ import annotations

import pytest

from pipeline_core.common import failpoints
from pipeline_core.common.failpoints import Point
from pipeline_core.errors import ConfigurationError


def test_configured_failures_are_parsed_with_labels_and_times() -> None:
    first, second = failpoints.parse("stage.claimed@gates@train:exit, hook.answered:sleep=0.5:3")
    assert (first.point, first.labels, first.times) == (Point.STAGE_CLAIMED, {"gates", "train"}, 1)
    assert (second.action, second.times) == ("sleep=0.5", 3)


@pytest.mark.parametrize(
    "text", ["nowhere:exit", "hook.answered", "hook.answered:burn", "hook.answered:sleep=x", "hook.answered:exit:x"]
)
def test_an_invalid_configuration_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="PIPELINE_FAILPOINT"):
        failpoints.parse(text)


def test_no_failure_is_configured_by_default() -> None:
    failpoints.reach(Point.STAGE_CLAIMED, "gates")
