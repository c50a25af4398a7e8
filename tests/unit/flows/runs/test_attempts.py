from __future__ import annotations

import pytest

from pipeline_core.flows.runs import attempts


@pytest.mark.parametrize(
    ("taken", "count", "found"),
    [
        ([], 2, [10, 11]),
        ([10], 2, [11, 12]),
        ([11], 2, [12, 13]),
        ([11], 1, [10]),
        ([10, 12, 13], 2, []),
        ([5, 9, 10, 11, 99], 2, [12, 13]),
        ([], 5, []),
    ],
)
def test_the_first_free_consecutive_ports_are_leased(taken: list[int], count: int, found: list[int]) -> None:
    assert list(attempts.first_gap(taken, count, range(10, 14))) == found
