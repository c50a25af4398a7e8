from __future__ import annotations

from typing import Any

import pytest

from pipeline_core.flows.definition.flow import parse_stored
from tests.builders import flow_entry


def with_argument(value: Any) -> dict[str, Any]:
    return flow_entry("numbers", {"a": []}, {"a": {"args": {"images": "busybox", "x": value}}})


def test_a_stored_entry_is_parsed_once() -> None:
    assert parse_stored(with_argument(1)) is parse_stored(with_argument(1))


@pytest.mark.parametrize("other", [True, 1.0, "1"])
def test_values_that_only_python_takes_as_equal_are_distinguished(other: Any) -> None:
    parse_stored(with_argument(1))
    (task,) = parse_stored(with_argument(other)).tasks.values()
    assert repr(task.args["x"]) == repr(other)
