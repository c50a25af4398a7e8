from __future__ import annotations

from typing import Any

import pytest

from pipeline_core.jobs.trail import MAX_SHOWN_BYTES, bounded, masked_patch
from pipeline_core.taskset.masking import MASK

ENV = {"name": "DB_PASSWORD", "value": "hunter2"}
PLAIN = {"name": "BATCH", "value": "32"}
CONTAINER = "/spec/roles/0/template/spec/containers/0"


@pytest.mark.parametrize(
    ("operation", "value"),
    [
        ({"op": "add", "path": f"{CONTAINER}/env/-", "value": ENV}, {**ENV, "value": MASK}),
        ({"op": "add", "path": f"{CONTAINER}/env/0", "value": PLAIN}, PLAIN),
        ({"op": "add", "path": f"{CONTAINER}/env", "value": [PLAIN, ENV]}, [PLAIN, {**ENV, "value": MASK}]),
        (
            {"op": "add", "path": "/spec/roles/0/template/spec/containers/1", "value": {"name": "x", "env": [ENV]}},
            {"name": "x", "env": [{**ENV, "value": MASK}]},
        ),
        # The variable's name is not in the operation, so it may be anything.
        ({"op": "add", "path": f"{CONTAINER}/env/0/value", "value": "hunter2"}, MASK),
        ({"op": "add", "path": f"{CONTAINER}/image", "value": "token-server"}, "token-server"),
    ],
)
def test_values_of_secret_variables_are_masked_wherever_a_patch_has_them(operation: dict[str, Any], value: Any) -> None:
    assert masked_patch([operation]) == [{**operation, "value": value}]


def test_what_is_masked_is_a_copy() -> None:
    patch = [{"op": "add", "path": "/a", "value": [dict(ENV)]}]
    masked_patch(patch)
    assert patch[0]["value"] == [ENV]


@pytest.mark.parametrize("patch", [None, [], [{"op": "remove", "path": "/a"}]])
def test_nothing_to_mask_is_left_as_it_is(patch: Any) -> None:
    assert masked_patch(patch) == patch


def test_a_trail_shows_so_much_of_what_plugins_answered_and_how_much_it_leaves_out() -> None:
    half = {"topic": "t", "advice": "x" * (MAX_SHOWN_BYTES // 2), "reason": ""}
    small = {"topic": "t", "advice": 1, "reason": ""}
    change = {"op": "add", "path": "/a", "value": 1}
    first, second, third, last = bounded(
        [
            {"factors": [small, half], "patch": None},
            {"factors": [small, half, small], "patch": [change]},
            {"factors": None, "patch": [change]},
            {"factors": None, "patch": None},
        ]
    )
    assert first == {"factors": [small, half], "patch": None}
    assert second == {"factors": [small], "patch": [], "leftOut": 3}
    assert third == {"factors": None, "patch": [], "leftOut": 1}
    assert last == {"factors": None, "patch": None}
