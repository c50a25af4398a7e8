from __future__ import annotations

import pytest

from pipeline_core.flows.runs.cache import KEPT, KEPT_TASKS, RunCache


@pytest.mark.parametrize(("tasks", "left"), [(1, KEPT), (KEPT_TASKS // 4, 4), (KEPT_TASKS + 1, 1)])
def test_so_much_is_remembered_and_the_first_is_forgotten_first(tasks: int, left: int) -> None:
    known = RunCache[int]()
    for number in range(100):
        known.keep(f"r{number}", number, tasks)
    kept = [number for number in range(100) if known.get(f"r{number}") is not None]
    assert kept == list(range(100 - left, 100))


def test_what_is_kept_again_is_the_newest() -> None:
    known = RunCache[int]()
    for number in (1, 2, 1, 3):
        known.keep(f"r{number}", number, KEPT_TASKS // 2)
    assert (known.get("r1"), known.get("r2"), known.get("r3")) == (1, None, 3)
