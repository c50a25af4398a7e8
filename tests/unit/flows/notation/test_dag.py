from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.notation.dag import Dag
from pipeline_core.flows.notation.errors import NotationError


def test_a_cycle_is_named() -> None:
    with pytest.raises(NotationError, match=r"a cycle: (a -> b -> a|b -> a -> b)$"):
        Dag.of({"a": ["b"], "b": ["a"], "c": ["a"]})
    with pytest.raises(NotationError, match=r"a cycle: a -> a$"):
        Dag.of({"a": ["a"]})


def test_a_long_cycle_is_shortened() -> None:
    with pytest.raises(NotationError, match="…"):
        Dag.of({str(n): [str((n + 1) % 1000)] for n in range(1000)})


def test_an_unknown_upstream_is_named() -> None:
    with pytest.raises(NotationError, match='"ghost" upstream of "a"'):
        Dag.of({"a": ["ghost"]})


def test_a_thousand_tasks_may_be_deep_or_wide() -> None:
    deep = Dag.of({str(n): [str(n + 1)] if n < 999 else [] for n in range(1000)})
    assert next(iter(deep)) == "999"
    assert len(deep.ancestors("0")) == 999
    wide = Dag.of({"last": [str(n) for n in range(999)], **{str(n): [] for n in range(999)}})
    assert [*wide][-1] == "last"


@given(st.lists(st.lists(st.integers(0, 20), max_size=4), max_size=20))
def test_each_task_comes_after_all_its_ancestors(edges: list[list[int]]) -> None:
    dag = Dag.of({str(n): [str(m) for m in before if m < n] for n, before in enumerate(edges)})
    order = [*dag]
    for task in order:
        assert dag.ancestors(task) <= set(order[: order.index(task)])
        assert set(dag.upstream[task]) <= dag.ancestors(task)
