from __future__ import annotations

import pytest

from pipeline_core.flows.definition.cache import MAX_CACHED, MAX_CACHED_TASKS, FlowCache


@pytest.mark.parametrize(("tasks", "left"), [(1, MAX_CACHED), (MAX_CACHED_TASKS // 4, 4), (MAX_CACHED_TASKS + 1, 1)])
def test_the_cache_is_bounded_and_drops_the_oldest_first(tasks: int, left: int) -> None:
    cache = FlowCache[int]()
    for number in range(100):
        cache.put(f"r{number}", number, tasks)
    cached = [number for number in range(100) if cache.get(f"r{number}") is not None]
    assert cached == list(range(100 - left, 100))


def test_what_is_cached_again_is_the_newest() -> None:
    cache = FlowCache[int]()
    for number in (1, 2, 1, 3):
        cache.put(f"r{number}", number, MAX_CACHED_TASKS // 2)
    assert (cache.get("r1"), cache.get("r2"), cache.get("r3")) == (1, None, 3)
