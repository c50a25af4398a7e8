"""Documents that another version of the service has stored."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_core.common.stored import known_fields


@dataclass
class Point:
    x: int
    y: int = 0


def test_what_a_newer_version_has_added_is_left_out() -> None:
    assert Point(**known_fields(Point, {"x": 1, "z": 3})) == Point(1)
